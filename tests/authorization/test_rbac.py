"""RBAC decisions, their reasons, and how quickly they come."""

from __future__ import annotations

import gc
import sys
from typing import Any
from weakref import ref

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kapi.authorization.interface import Attributes, Decision
from kapi.authorization.rbac.authorizer import RBACAuthorizer
from kapi.authorization.rbac.index import PolicyIndex, RoleRules
from kapi.authorization.rbac.policy import PolicyRule
from kapi.machinery.checkpoint import engage
from kapi.process.slices import Slices
from kapi.request.user import UserInfo
from tests.authorization.policies import account, ask, authorizer, binding, group, role, rule, user
from tests.growth.counting import effort, stretches
from tests.turns import one_turn

ALICE = UserInfo("alice", groups=("dev",))


def allowed(rbac: RBACAuthorizer, attributes: Attributes) -> bool:
    return rbac.authorize(attributes).decision is Decision.ALLOW


def test_a_role_binding_allows_in_its_namespace_only() -> None:
    rbac = authorizer(
        role("reader", rule("get list", "pods"), namespace="x"), binding("b", "reader", user("alice"), namespace="x")
    )
    verdict = rbac.authorize(ask(ALICE, "get", "pods", "x"))
    assert verdict == (Decision.ALLOW, 'RBAC: allowed by RoleBinding "b/x" of Role "reader" to User "alice"', "")
    assert not allowed(rbac, ask(ALICE, "get", "pods", "y"))
    assert not allowed(rbac, ask(ALICE, "get", "pods"))
    assert not allowed(rbac, ask(ALICE, "delete", "pods", "x"))
    assert not allowed(rbac, ask(UserInfo("bob"), "get", "pods", "x"))


def test_a_role_in_a_namespace_never_authorizes_a_cluster_scoped_resource() -> None:
    """CVE-2019-11247: the namespace in the path must not lend a Role power over what has no namespace."""
    rbac = authorizer(
        role("all", rule("*", "*", "*"), namespace="x"), binding("b", "all", user("alice"), namespace="x")
    )
    assert not allowed(rbac, ask(ALICE, "get", "widgets", "", "example.com"))


def test_a_cluster_role_bound_in_a_namespace() -> None:
    rbac = authorizer(
        role("view", rule("get", "pods")), binding("b", "view", group("dev"), namespace="x", kind="ClusterRole")
    )
    assert allowed(rbac, ask(ALICE, "get", "pods", "x"))
    assert not allowed(rbac, ask(ALICE, "get", "pods", "y"))


def test_service_accounts_by_namespace_of_the_subject_or_the_binding() -> None:
    rbac = authorizer(
        role("r", rule("get", "pods"), namespace="x"),
        binding("own", "r", account("app"), namespace="x"),
        binding("other", "r", account("app", "y"), namespace="x"),
        role("c", rule("get", "nodes")),
        binding("homeless", "c", account("app")),
    )
    own = UserInfo("system:serviceaccount:x:app")
    assert rbac.authorize(ask(own, "get", "pods", "x")).reason.endswith('to ServiceAccount "app/x"')
    assert allowed(rbac, ask(UserInfo("system:serviceaccount:y:app"), "get", "pods", "x"))
    assert not allowed(rbac, ask(own, "get", "nodes"))


def test_subresources_need_a_rule_of_their_own() -> None:
    rbac = authorizer(
        role("r", rule("get", "pods */scale"), rule("create", "pods/exec")), binding("b", "r", user("alice"))
    )
    assert not allowed(rbac, ask(ALICE, "get", "pods/log", "x"))
    assert allowed(rbac, ask(ALICE, "get", "deployments/scale", "x"))
    assert not allowed(rbac, ask(ALICE, "get", "deployments", "x"))
    assert allowed(rbac, ask(ALICE, "create", "pods/exec", "x"))


def test_names_limit_a_rule_and_shut_out_collections() -> None:
    rbac = authorizer(role("r", rule("*", "configmaps", names="one")), binding("b", "r", user("alice")))
    assert allowed(rbac, ask(ALICE, "delete", "configmaps", "x", name="one"))
    assert not allowed(rbac, ask(ALICE, "delete", "configmaps", "x", name="two"))
    assert not allowed(rbac, ask(ALICE, "list", "configmaps", "x"))


def test_paths_and_their_prefixes() -> None:
    urls = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/apis/*"]}
    rbac = authorizer(role("r", urls), binding("b", "r", user("alice")))

    def path(text: str, verb: str = "get") -> bool:
        return allowed(rbac, Attributes(ALICE, verb, is_resource=False, path=text))

    assert path("/healthz") and path("/apis/apps") and path("/apis/")
    assert not path("/healthz/etcd") and not path("/apis") and not path("/healthz", "post")


def test_a_missing_role_is_told_as_upstream_tells_it() -> None:
    rbac = authorizer(binding("b", "nosuch", user("alice"), namespace="x"))
    verdict = rbac.authorize(ask(ALICE, "get", "pods", "x"))
    assert verdict == (Decision.NO_OPINION, 'RBAC: role.rbac.authorization.k8s.io "nosuch" not found', "")


def test_rules_of_a_user_with_a_missing_role() -> None:
    rbac = authorizer(
        role("r", rule("get", "pods")), binding("a", "r", user("alice")), binding("b", "gone", user("alice"))
    )
    found = rbac.rules_for(ALICE, "x")
    assert [each.resources for each in found.resource_rules] == [("pods",)]
    assert found.errors == ['clusterrole.rbac.authorization.k8s.io "gone" not found']
    assert rbac.rules_for(UserInfo("bob"), "x").errors == []


def test_changes_count_at_once() -> None:
    """A decision that is remembered must not outlive what it rests on."""
    index = PolicyIndex()
    rbac = RBACAuthorizer(index)
    question = ask(ALICE, "get", "pods", "x")
    reader, bound = role("r", rule("get", "pods")), binding("b", "r", user("alice"))
    assert not allowed(rbac, question)
    index.on_binding("ADDED", bound)
    index.on_role("ADDED", reader)
    assert allowed(rbac, question)
    index.on_role("MODIFIED", role("r", rule("list", "pods")), reader)
    assert not allowed(rbac, question)
    index.on_role("MODIFIED", reader)
    assert allowed(rbac, question)
    index.on_binding("MODIFIED", binding("b", "r", user("bob")), bound)
    assert not allowed(rbac, question)
    assert allowed(rbac, ask(UserInfo("bob"), "get", "pods", "x"))
    index.on_binding("DELETED", binding("b", "r", user("bob")))
    assert not allowed(rbac, ask(UserInfo("bob"), "get", "pods", "x"))


def test_the_rules_of_a_large_role_are_read_in_slices() -> None:
    """Meanwhile those it had count, and what comes later wins."""
    clock, index = Clock(), PolicyIndex()
    index.call = Slices(clock, length=-1).call  # every checkpoint suspends
    rbac = RBACAuthorizer(index)
    many = [rule("get", f"r{number}") for number in range(2000)]
    gets, lists = ask(ALICE, "get", "pods", "x"), ask(ALICE, "list", "pods", "x")
    small, large = role("r", rule("get", "pods")), role("r", *many, rule("list", "pods"))
    index.on_binding("ADDED", binding("b", "r", user("alice")))
    index.on_role("ADDED", small)
    assert not allowed(rbac, lists)
    index.on_role("MODIFIED", large, small)
    loaded = Deferred.fromCoroutine(index.loaded())
    assert (loaded.called, allowed(rbac, gets), allowed(rbac, lists)) == (False, True, False)
    clock.pump([0] * 3)
    assert loaded.called
    assert (allowed(rbac, gets), allowed(rbac, lists)) == (False, True)
    for last, found in (("MODIFIED", (True, False)), ("DELETED", (False, False))):
        index.on_role("MODIFIED", large)
        index.on_role(last, small)
        clock.pump([0] * 3)
        assert (allowed(rbac, gets), allowed(rbac, lists)) == found


def test_a_request_of_whoever_has_a_large_role_does_not_walk_its_rules() -> None:
    """Whether they differ in one list or another, and whether one of them allows it or none does."""
    count = 5000
    kinds: list[Any] = [
        lambda number: rule("get", f"r{number}"),
        lambda number: rule("get", "pods", names=f"n{number}"),
        lambda number: rule("get", "pods" if number % 2 else "secrets", names=f"n{number % 2} m{number}"),
        lambda number: rule(f"v{number} get", "pods", f"g{number}"),
        lambda number: {"verbs": ["get"], "nonResourceURLs": [f"/x{number}/*"]},
    ]
    last = count - 1
    questions = [
        ask(ALICE, "get", f"r{last}", "x"),
        ask(ALICE, "get", f"r{last}/log", "x"),
        ask(ALICE, "get", "pods", "x", name=f"n{last}"),
        ask(ALICE, "get", "pods", "x", name="n0"),
        ask(ALICE, "get", "pods", "x", group=f"g{last}"),
        Attributes(ALICE, "get", is_resource=False, path=f"/x{last}/y"),
        Attributes(ALICE, "get", is_resource=False, path=f"/y{last}/y"),
    ]
    found = []
    for kind in kinds:
        rbac = authorizer(role("r", *map(kind, range(count))), binding("b", "r", user("alice")))
        found.append([allowed(rbac, question) for question in questions])
        assert effort(lambda rbac=rbac: [RBACAuthorizer(rbac.index).authorize(each) for each in questions]) < 200 * len(
            questions
        )
    assert found == [
        [True, False, False, False, False, False, False],
        [False, False, True, True, False, False, False],
        [False, False, False, False, False, False, False],
        [False, False, False, False, True, False, False],
        [False, False, False, False, False, True, False],
    ]


def test_taking_up_a_large_role_holds_the_thread_for_a_bounded_time() -> None:
    """Rules whose values differ, one rule with many values, and many rules with the same."""
    for large in (
        [rule("get", f"r{number}", names=f"n{number}") for number in range(2000)],
        [rule("get", f"r{part} " + " ".join(f"r{number}" for number in range(2000))) for part in range(70)],
        [{"verbs": ["get"], "nonResourceURLs": [f"/x{number}/*"]} for number in range(2000)],
    ):
        found = stretches(lambda large=large: RoleRules.of(role("r", *large)))
        assert found.longest < 1600, found.where


def test_a_large_role_that_is_gone_is_freed_in_slices() -> None:
    def living() -> int:
        return sum(type(each) is PolicyRule for each in gc.get_objects())

    gc.collect()  # what other tests left is not counted
    clock, index = Clock(), PolicyIndex()
    large, before = role("r", *(rule("get", f"r{number}") for number in range(2000))), living()
    index.on_role("ADDED", large)
    index.call = Slices(clock, length=-1).call  # every checkpoint suspends
    index.on_binding("ADDED", binding("b", "r", user("alice")))
    assert living() - before == 2000
    index.on_role("DELETED", large)
    assert not allowed(RBACAuthorizer(index), ask(ALICE, "get", "r7", "x"))
    assert living() > before
    clock.pump([0] * 3)
    assert living() == before


def test_a_rule_with_many_values_is_read_in_slices_too() -> None:
    clock, index = Clock(), PolicyIndex()
    index.call = Slices(clock, length=-1).call  # every checkpoint suspends
    rbac = RBACAuthorizer(index)
    index.on_binding("ADDED", binding("b", "r", user("alice")))
    index.on_role("ADDED", role("r", rule("get", " ".join(f"r{number}" for number in range(2000)))))
    question = ask(ALICE, "get", "r7", "x")
    assert not allowed(rbac, question)
    clock.pump([0] * 3)
    assert allowed(rbac, question)


def test_a_large_binding_that_is_deleted_while_it_is_read_takes_nothing_from_others() -> None:
    clock, index = Clock(), PolicyIndex()
    index.on_role("ADDED", role("r", rule("get", "pods")))
    index.on_binding("ADDED", binding("other", "r", user("alice")))
    index.call = Slices(clock, length=-1).call  # every checkpoint suspends
    large = binding("b", "r", *(user(f"u{number}") for number in range(2000)), user("alice"))
    index.on_binding("ADDED", large)
    clock.pump([0] * 3)
    index.on_binding("DELETED", large)
    while clock.getDelayedCalls():
        clock.advance(0)
    assert allowed(RBACAuthorizer(index), ask(ALICE, "get", "pods", "x"))
    assert not allowed(RBACAuthorizer(index), ask(UserInfo("u7"), "get", "pods", "x"))


def test_a_large_role_that_cannot_be_read_allows_nothing() -> None:
    index = PolicyIndex()
    rbac = RBACAuthorizer(index)
    question = ask(ALICE, "get", "pods", "x")
    index.on_binding("ADDED", binding("b", "r", user("alice")))
    index.on_role("ADDED", role("r", rule("get", "pods")))
    assert allowed(rbac, question)
    broken: dict[str, Any] = role("r", *[rule("get", "pods")] * 2000)
    broken["rules"].append("text")
    index.on_role("MODIFIED", broken)
    assert not allowed(rbac, question)


def test_a_decision_that_others_overtake_is_not_remembered() -> None:
    clock, index = Clock(), PolicyIndex()
    slices = Slices(clock, length=-1)  # every checkpoint suspends
    rbac = RBACAuthorizer(index)
    index.on_role("ADDED", role("r", rule("get", "pods")))
    index.on_binding("ADDED", binding("b", "r", group("g0")))
    many = ask(UserInfo("x", groups=tuple(f"g{number}" for number in range(100))), "get", "pods", "x")
    asked = slices.call(rbac.authorize, many)
    index.on_binding("DELETED", binding("b", "r", group("g0")))
    allowed(rbac, ask(ALICE, "get", "pods", "x"))
    clock.pump([0] * 50)
    assert asked.called
    assert not allowed(rbac, many)


def test_decisions_about_users_with_very_many_groups_are_not_remembered() -> None:
    rbac = authorizer(role("r", rule("get", "pods")), binding("b", "r", group("g0")))
    crowd = UserInfo("x", groups=tuple(f"g{number}" for number in range(1000)))
    assert allowed(rbac, ask(crowd, "get", "pods", "x"))
    assert not any(crowd.groups in key for key in rbac._recent)


def test_a_large_binding_is_filed_in_slices() -> None:
    """Who has it and keeps it has it all the time; the newest state counts."""
    clock, index = Clock(), PolicyIndex()
    index.call = Slices(clock, length=-1).call  # every checkpoint suspends
    rbac = RBACAuthorizer(index)
    index.on_role("ADDED", role("r", rule("get", "pods")))
    kept, gone, new = (ask(UserInfo(name), "get", "pods", "x") for name in ("kept", "gone", "new"))
    many = [user(f"u{number}") for number in range(2000)]
    index.on_binding("ADDED", binding("b", "r", user("gone"), *many, user("kept")))
    assert not allowed(rbac, kept)
    clock.pump([0] * 500)
    assert allowed(rbac, kept) and allowed(rbac, gone)
    index.on_binding("MODIFIED", binding("b", "r", user("kept")))
    index.on_binding("MODIFIED", binding("b", "r", user("new"), *reversed(many), user("kept")))
    for _ in range(500):
        clock.advance(0)
        assert allowed(rbac, kept)
    assert allowed(rbac, new) and not allowed(rbac, gone)
    index.on_binding("DELETED", binding("b", "r", user("new"), *reversed(many), user("kept")))
    index.on_binding("ADDED", binding("b", "r", user("gone")))
    clock.pump([0] * 500)
    assert [allowed(rbac, each) for each in (kept, gone, new)] == [False, True, False]
    index.on_binding("DELETED", binding("b", "r", user("gone")))
    assert not (index._grants or index._subjects or index._indexing)


def test_a_large_binding_that_cannot_be_read_is_nobodys() -> None:
    index = PolicyIndex()
    rbac = RBACAuthorizer(index)
    index.on_role("ADDED", role("r", rule("get", "pods")))
    index.on_binding("ADDED", binding("b", "r", user("alice")))
    broken = binding("b", "r", user("alice"), *[user("x")] * 2000)
    broken["subjects"].append("text")
    index.on_binding("MODIFIED", broken)
    assert not allowed(rbac, ask(ALICE, "get", "pods", "x"))
    assert not (index._grants or index._subjects or index._indexing)


def test_rules_of_a_user() -> None:
    rbac = authorizer(
        role("r", rule("get", "pods"), {"verbs": ["get"], "nonResourceURLs": ["/x"]}), binding("b", "r", group("dev"))
    )
    rules = rbac.rules_for(ALICE, "x")
    assert [found.resources for found in rules.resource_rules] == [("pods",)]
    assert [found.urls for found in rules.non_resource_rules] == [("/x",)]
    assert not rules.incomplete


def test_ten_thousand_bindings_cost_no_scan() -> None:
    """A check looks at the user's own bindings."""
    objects = []
    for number in range(10_000):
        namespace = f"n{number % 500}"
        objects.append(role(f"r{number}", rule("get", "pods"), namespace=namespace))
        objects.append(binding(f"b{number}", f"r{number}", user(f"u{number}"), namespace=namespace))
    rbac = authorizer(*objects)
    questions = [
        ask(UserInfo(f"u{n}", groups=("system:authenticated",)), "get", "pods", f"n{n % 500}") for n in range(2000)
    ]
    assert effort(lambda: [allowed(rbac, question) for question in questions]) < 150 * len(questions)
    assert all(allowed(rbac, question) for question in questions)


def test_the_memory_of_decisions_is_bounded_in_number_and_size() -> None:
    """CVE-2020-8552: nothing grows with the names that clients make up."""
    rbac = authorizer(role("r", rule("get", "pods")), binding("b", "r", user("alice")))
    for number in range(10_000):
        rbac.authorize(ask(ALICE, "get", "pods", "x", name=f"n{number}"))
    assert len(rbac._recent) <= 8192
    before = len(rbac._recent)
    assert allowed(rbac, ask(ALICE, "get", "pods", "x", name="n" * 60_000))
    assert len(rbac._recent) == before


class Watched(dict[str, Any]):
    """A tree that can be referenced weakly."""


def test_the_index_keeps_no_tree_of_a_binding() -> None:
    """3,000 bindings of 20 users took 44 MB."""
    tree = Watched(binding("b", "r", Watched(user("alice")), Watched(account("app", "x")), namespace="x"))
    tree["roleRef"] = Watched(tree["roleRef"])
    parts = [ref(tree), ref(tree["roleRef"]), *(ref(subject) for subject in tree["subjects"])]
    rbac = authorizer(role("r", rule("get", "pods"), namespace="x"))
    rbac.index.on_binding("ADDED", tree, None)
    del tree
    assert [part() for part in parts] == [None] * 4
    assert rbac.authorize(ask(ALICE, "get", "pods", "x")).reason.endswith('to User "alice"')
    app = UserInfo("system:serviceaccount:x:app")
    assert rbac.authorize(ask(app, "get", "pods", "x")).reason.endswith('to ServiceAccount "app/x"')


def test_a_rule_of_few_values_takes_little_memory() -> None:
    """3,000 roles of 20 rules took 47 MB."""
    rules = [PolicyRule(["get"], [""], [f"things{number}"]) for number in range(3)]
    sizes = []
    for one in rules:
        others = {id(part) for other in rules if other is not one for part in gc.get_referents(other)}
        own = [part for part in gc.get_referents(one) if id(part) not in others]
        sizes.append(sys.getsizeof(one) + sum(sys.getsizeof(part) for part in own))
    assert max(sizes) < 300


def test_a_subject_of_several_bindings_keeps_those_that_are_left() -> None:
    index = PolicyIndex()
    for number in range(3):
        index.on_role("ADDED", role(f"r{number}", rule("get", f"things{number}")), None)
    rbac = RBACAuthorizer(index)

    def held() -> list[int]:
        return [number for number in range(3) if allowed(rbac, ask(ALICE, "get", f"things{number}"))]

    bindings = [binding(f"b{number}", f"r{number}", user("alice")) for number in range(3)]
    seen = []
    for event, number in (("ADDED", 0), ("ADDED", 1), ("DELETED", 0), ("ADDED", 2), ("DELETED", 2), ("DELETED", 1)):
        index.on_binding(event, bindings[number], None)
        seen.append(held())
    assert seen == [[0], [0, 1], [1], [1, 2], [1], []]
    changed = binding("b0", "r1", user("alice"))
    for one in (bindings[0], changed):
        index.on_binding("MODIFIED", one, None)
    assert held() == [1]
    index.on_binding("DELETED", changed, None)
    assert not (index._grants or index._subjects)


def test_rules_that_say_the_same_share_it() -> None:
    """In order and for matching; what is long belongs to its rule."""

    def made(verbs: int) -> PolicyRule:
        return PolicyRule([f"verb-{number}" for number in range(verbs)], [f"group{verbs}"], [f"resource-{verbs}"])

    first, second = made(3), made(3)
    assert first.verbs is second.verbs
    assert first._verbs is second._verbs
    assert first.allows(ask(ALICE, "verb-1", "resource-3", "x", group="group3"))
    assert not first.allows(ask(ALICE, "verb-3", "resource-3", "x", group="group3"))
    long, other = made(100), made(100)
    assert long.verbs == other.verbs
    assert long.verbs is not other.verbs
    assert long.allows(ask(ALICE, "verb-99", "resource-100", "x", group="group100"))


MANY = 1000


def test_thousands_of_bindings_of_one_user_are_walked_in_steps() -> None:
    rbac = authorizer(
        *(role(f"r{number}", rule("get", f"things{number}")) for number in range(MANY)),
        *(binding(f"b{number}", f"r{number}", user("alice")) for number in range(MANY)),
    )
    for work in (lambda: rbac.authorize(ask(ALICE, "get", "pods")), lambda: rbac.rules_for(ALICE, "x")):
        found = stretches(work)
        assert found.longest < 3 * MANY, found.where
    assert len(rbac.rules_for(ALICE, "x").resource_rules) == MANY


def test_bindings_that_come_and_go_while_a_decision_is_made_in_slices() -> None:
    rbac = authorizer(
        *(role(f"r{number}", rule("get", f"things{number}")) for number in range(MANY)),
        *(binding(f"b{number}", f"r{number}", user("alice")) for number in range(MANY)),
    )
    clock = Clock()
    slices = Slices(clock, length=-1)  # every checkpoint suspends

    def decide() -> bool:
        engage()
        return allowed(rbac, ask(ALICE, "get", f"things{MANY - 1}"))

    results: list[bool] = []
    slices.call(decide).addCallback(results.append)
    turns = 0
    while not results:
        rbac.index.on_binding("ADDED", binding(f"later{turns}", "r1", user("alice")))
        rbac.index.on_binding("DELETED", binding(f"b{turns}", f"r{turns}", user("alice")))
        one_turn(clock)
        turns += 1
    assert results == [True]
    assert turns > 10

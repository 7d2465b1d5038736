"""Feature gates: their stages and defaults in a release (``lifecycles.txt``), and the gates with an effect in kapi.

Upstream: component-base ``featuregate``; ``pkg/features``, apiserver ``pkg/features``, client-go ``features``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kapi.machinery.lifecycles import CURRENT, PRE_ALPHA, RELEASE, TABLE, EffectiveVersion, Release, Stage, stage

#: names that set all gates of a stage, except gates that are set by name
STAGES = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
#: gates with an effect in kapi
WITH_EFFECT = frozenset(
    """
    AllowInsecureKubeletCertificateSigningRequests AllowParsingUserUIDFromCertAuth AllowUnsafeMalformedObjectDeletion
    APIResponseCompression APIServerIdentity AuthorizePodWebsocketUpgradeCreatePermission CBORServingAndStorage
    ClearingNominatedNodeNameAfterBinding ClusterTrustBundle ClusterTrustBundleProjection ComponentFlagz
    ComponentStatusz ConstrainedImpersonation ContainerRestartRules ContainerStopSignals CoordinatedLeaderElection
    CRDObservedGenerationTracking CrossNamespaceVolumeDataSource DeploymentReplicaSetTerminatingReplicas
    DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints DRAExtendedResource
    DRAListTypeAttributes DRANodeAllocatableResources DRAPartitionableDevices DRAPrioritizedList
    DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus
    DRAWorkloadResourceClaims EnvFiles GenericWorkload HostnameOverride HPAConfigurableTolerance HPAScaleToZero
    ImageVolumeWithDigest InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScaling
    InPlacePodVerticalScalingInitContainers KubeletServiceAccountTokenForCredentialProviders
    ManifestBasedAdmissionControlConfig MatchLabelKeysInPodTopologySpread
    MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MutablePodResourcesForSuspendedJobs
    MutablePVNodeAffinity MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy NodeDeclaredFeatures
    OpenAPIEnums PodCertificateRequest PodDeletionCost PodLevelResources PodLogsQuerySplitStreams
    PodTopologyLabelsAdmission PreferSameTrafficDistribution RelaxedDNSSearchValidation RelaxedServiceNameValidation
    RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage RestartAllContainersOnContainerExits SELinuxMount
    ServiceAccountNodeAudienceRestriction ServiceCIDRStatusFieldWiping ShardedListAndWatch StorageVersionAPI
    StorageVersionHash StorageVersionMigrator StrictIPCIDRValidation
    StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
    TaintTolerationComparisonOperators TokenRequestServiceAccountUIDValidation TopologyAwareWorkloadScheduling
    UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UserNamespacesHostNetworkSupport
    VolumeLimitScaling WatchList
    WorkloadAwarePreemption WorkloadWithJob
""".split()
)


def stages(release: Release) -> dict[str, Stage]:
    """The gates of kapi, each with its stage in the emulated release."""
    first = {gate: specs[0][0] for gate, specs in TABLE.stages.items()}
    known = [gate for gate, since in first.items() if since <= RELEASE and stage(gate, RELEASE) is not None]
    return {gate: stage(gate, release) or PRE_ALPHA for gate in sorted(known)}


#: the gates of kapi's own release
GATES = stages(RELEASE)


def resolve(given: Mapping[str, bool], release: Release = RELEASE) -> dict[str, bool]:
    """The value of every gate under these settings, in the emulated release."""
    switched = {name: given[key] for key, name in STAGES.items() if key in given}
    return {
        name: given[name] if name in given else gate.default if gate.locked else switched.get(gate.name, gate.default)
        for name, gate in (GATES if release == RELEASE else stages(release)).items()
    }


def problems(given: Mapping[str, bool], version: EffectiveVersion = CURRENT) -> list[str]:
    """The errors of settings, in upstream's words."""
    if unknown := [name for name in given if name not in GATES and name not in STAGES]:
        return [f"unrecognized feature gate: {unknown[0]}"]
    errors = []
    known = stages(version.emulated)
    for name, on in given.items():
        gate = known.get(name)
        if gate is None:
            continue  # a name of STAGES
        value, default = ("true" if on else "false"), ("true" if gate.default else "false")
        if gate.locked and on is not gate.default:
            errors.append(f"cannot set feature gate {name} to {value}, feature is locked to {default}")
        elif gate is PRE_ALPHA:
            errors.append(
                f"cannot set feature gate {name} to {value}, feature is PreAlpha at emulated version "
                f"{version.emulated}, min compatibility version {version.min_compatibility}"
            )
    return errors or list(_unmet(resolve(given, version.emulated)))


def _unmet(features: Mapping[str, bool]) -> Iterator[str]:
    """The errors of gates that are enabled without the gates that they need."""
    for name, needed in TABLE.needs.items():
        if features.get(name) and (off := [gate for gate in needed if not features.get(gate)]):
            yield f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"


def without_effect(given: Mapping[str, bool]) -> list[str]:
    """The gates that are not set to their default, although they have no effect in kapi."""
    return [
        name
        for name, on in given.items()
        if name in GATES and name not in WITH_EFFECT and on is not GATES[name].default
    ]

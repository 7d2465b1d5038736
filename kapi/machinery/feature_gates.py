"""The feature gates of Kubernetes 1.36: stage, default, and whether they are locked to it.

Upstream: ``pkg/features``, apiserver ``pkg/features``, client-go ``features``, component-base ``featuregate``.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

ALPHA, BETA, GA, DEPRECATED = "ALPHA", "BETA", "", "DEPRECATED"
#: names that set all gates of a stage, except those that are set by name
STAGES = {"AllAlpha": ALPHA, "AllBeta": BETA}


class Gate(msgspec.Struct, frozen=True):
    """One gate.  ``stage`` is as in metrics, where GA is empty."""

    name: str
    stage: str
    default: bool
    locked: bool


_ALPHA = """
    AllowUnsafeMalformedObjectDeletion APIServingWithRoutine CBORServingAndStorage ClientsAllowCBOR
    ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
    ContainerStopSignals ControllerManagerReleaseLeaderElectionLockOnExit CPUManagerPolicyAlphaOptions
    CRIListStreaming CrossNamespaceVolumeDataSource CSIVolumeHealth DRAListTypeAttributes
    DRANodeAllocatableResources DRAResourcePoolStatus DRAWorkloadResourceClaims EventedPLEG GangScheduling
    GenericWorkload HPAScaleToZero ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
    InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace LoggingAlphaOptions
    ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity NativeHistograms
    PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodLevelResourceManagers
    PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriAPI
    ShardedListAndWatch StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators
    TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
    VolumeLimitScaling WindowsCPUAndMemoryAffinity WorkloadAwarePreemption WorkloadWithJob
"""
_BETA = """
    AllowParsingUserUIDFromCertAuth APIResponseCompression APIServerIdentity AtomicFIFO
    AuthorizePodWebsocketUpgradeCreatePermission ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation
    ClientsAllowTLSCacheGC ComponentFlagz ComponentStatusz ConstrainedImpersonation ContainerCheckpoint
    ContainerRestartRules ContextualLogging CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
    DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency DRAConsumableCapacity
    DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices
    DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout EnvFiles
    ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HostnameOverride
    HPAConfigurableTolerance InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
    InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
    KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions
    MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
    MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
    NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist PodDeletionCost
    PodLevelResources PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
    PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
    RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption
    SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
    StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageVersionHash
    StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
    StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
    TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
    UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook WatchList
    WatchListClient WindowsGracefulNodeShutdown
"""
_BETA_OFF = """
    ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode CoordinatedLeaderElection
    DRADeviceTaintRules LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet
    PodCertificateRequest SchedulerAsyncAPICalls SELinuxMount StorageVersionMigrator
"""
_GA = """
    AllowServiceExternalIPs CPUCFSQuotaPeriod DRAPrioritizedList InformerResourceVersion MutatingAdmissionPolicy
"""
_GA_LOCKED = """
    AnonymousAuthConfigurableEndpoints AnyVolumeDataSource APIServerTracing AuthorizeNodeWithSelectors
    AuthorizeWithSelectors BtreeWatchCache ConsistentListFromCache CPUManagerPolicyOptions CRDValidationRatcheting
    CSIServiceAccountTokenSecrets CustomResourceFieldSelectors DeclarativeValidation DisableAllocatorDualWrite
    DRAAdminAccess DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner ImageMaximumGCAge
    ImageVolume InOrderInformers InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy
    JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz
    KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletPSI KubeletTracing LogarithmicScaleDown
    MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount NFTablesProxyMode
    NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion PodLifecycleSleepAction
    PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness
    PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
    RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation ResilientWatchCacheInitialization
    RetryGenerateName SchedulerQueueingHints SELinuxChangePolicy SELinuxMountReadWriteOncePod
    SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
    SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport
    VolumeAttributesClass WinDSR WinOverlay
"""
_DEPRECATED = """
    DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping
    StorageNamespaceIndex
"""
_DEPRECATED_LOCKED = """
    AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion
"""
_DEPRECATED_OFF = """
    AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart
    DeclarativeValidationTakeover KMSv1 KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
"""
_DEPRECATED_OFF_LOCKED = """
    AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC
"""
#: gates that kapi refuses to enable -> why
REFUSED = {"CBORServingAndStorage": "kapi answers and stores no CBOR; clients get JSON or protobuf"}
#: gates that change something in kapi
WITH_EFFECT = frozenset(
    """
    AllowInsecureKubeletCertificateSigningRequests AllowUnsafeMalformedObjectDeletion APIServerIdentity
    ClearingNominatedNodeNameAfterBinding ClusterTrustBundle ClusterTrustBundleProjection ComponentFlagz
    ComponentStatusz ConstrainedImpersonation ContainerRestartRules ContainerStopSignals CoordinatedLeaderElection
    DRADeviceTaintRules DRADeviceTaints
    DRAListTypeAttributes DRANodeAllocatableResources DRAResourceClaimGranularStatusAuthorization
    DRAResourcePoolStatus DRAWorkloadResourceClaims EnvFiles
    GenericWorkload HostnameOverride HPAConfigurableTolerance HPAScaleToZero ImageVolumeWithDigest
    InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingInitContainers
    MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MutablePodResourcesForSuspendedJobs
    MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy PodCertificateRequest PodDeletionCost
    PodLevelResources PodTopologyLabelsAdmission RestartAllContainersOnContainerExits SELinuxMount
    ServiceAccountNodeAudienceRestriction StorageVersionAPI StorageVersionMigrator
    TaintTolerationComparisonOperators UserNamespacesHostNetworkSupport
    TopologyAwareWorkloadScheduling VolumeLimitScaling WatchList WorkloadAwarePreemption
""".split()
)


def _table() -> dict[str, Gate]:
    kinds = (
        (_ALPHA, ALPHA, False, False),
        (_BETA, BETA, True, False),
        (_BETA_OFF, BETA, False, False),
        (_GA, GA, True, False),
        (_GA_LOCKED, GA, True, True),
        (_DEPRECATED, DEPRECATED, True, False),
        (_DEPRECATED_LOCKED, DEPRECATED, True, True),
        (_DEPRECATED_OFF, DEPRECATED, False, False),
        (_DEPRECATED_OFF_LOCKED, DEPRECATED, False, True),
    )
    found = [Gate(name, stage, on, locked) for names, stage, on, locked in kinds for name in names.split()]
    return {gate.name: gate for gate in sorted(found, key=lambda gate: gate.name)}


GATES = _table()


def resolve(given: Mapping[str, bool]) -> dict[str, bool]:
    """The value of every gate under these settings."""
    stages = {stage: given[name] for name, stage in STAGES.items() if name in given}
    return {
        name: given[name] if name in given else gate.default if gate.locked else stages.get(gate.stage, gate.default)
        for name, gate in GATES.items()
    }


def problems(given: Mapping[str, bool]) -> list[str]:
    """The errors of settings: upstream's, in its words, and gates of ``REFUSED``."""
    errors = []
    for name, on in given.items():
        gate = GATES.get(name)
        if gate is None:
            if name not in STAGES:
                errors.append(f"unrecognized feature gate: {name}")
        elif gate.locked and on is not gate.default:
            values = tuple("true" if value else "false" for value in (on, gate.default))
            errors.append(f"cannot set feature gate {name} to {values[0]}, feature is locked to {values[1]}")
        elif on and name in REFUSED:
            errors.append(f"cannot set feature gate {name} to true: {REFUSED[name]}")
    return errors


def without_effect(given: Mapping[str, bool]) -> list[str]:
    """The gates that are set to another value than their default although they change nothing in kapi."""
    return [
        name
        for name, on in given.items()
        if name in GATES and name not in WITH_EFFECT and on is not GATES[name].default
    ]

"""Features that cannot be dropped, or not yet."""

from __future__ import annotations

from tidegate.errors.protocol import ProtocolError


class DropFeatureError(ProtocolError):
    """A feature that cannot be dropped, or not yet."""

    code = "DROP_FEATURE"


class FeatureIsPropertyError(DropFeatureError):
    code = "FEATURE_IS_PROPERTY"
    errorClass = "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY"


class FeatureNotPresentError(DropFeatureError):
    code = "FEATURE_NOT_PRESENT"
    errorClass = "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"


class FeatureNotRemovableError(DropFeatureError):
    code = "FEATURE_NOT_REMOVABLE"
    errorClass = "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"


class FeatureNotDroppableHereError(DropFeatureError):
    """A feature that this client does not know well enough to take away."""

    code = "FEATURE_NOT_DROPPABLE_HERE"
    errorClass = "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"


class FeatureInUseError(DropFeatureError):
    """What the feature holds is the user's own, and is not taken away unasked."""

    code = "FEATURE_IN_USE"


class DependentFeatureError(DropFeatureError):
    code = "DEPENDENT_FEATURE"
    errorClass = "DELTA_FEATURE_DROP_DEPENDENT_FEATURE"


class TruncationNotAllowedError(DropFeatureError):
    code = "TRUNCATION_NOT_ALLOWED"
    errorClass = "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED"


class TruncationRequiredError(DropFeatureError):
    code = "TRUNCATION_REQUIRED"
    errorClass = "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION"


class WaitForRetentionError(DropFeatureError):
    code = "WAIT_FOR_RETENTION"
    errorClass = "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"


class HistoricalVersionsError(DropFeatureError):
    code = "HISTORICAL_VERSIONS"
    errorClass = "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"


class ProtectionWaitError(DropFeatureError):
    code = "PROTECTION_WAIT"
    errorClass = "DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD"


class BarrierCheckpointError(DropFeatureError):
    code = "BARRIER_CHECKPOINT"
    errorClass = "DELTA_FEATURE_DROP_CHECKPOINT_FAILED"


class DropConflictError(DropFeatureError):
    """Somebody has put the feature to use again while it was being dropped."""

    code = "DROP_CONFLICT"
    errorClass = "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"

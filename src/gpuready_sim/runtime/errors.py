"""Why a container did not come to life.

PullError     no registry has the image: ErrImagePull, then ImagePullBackOff
CreateError   the runtime could not make it (CRI CreateContainer): CreateContainerError
ConfigError   the pod's own references cannot be resolved: CreateContainerConfigError
StartError    it was made but its process could not start (CRI StartContainer): RunContainerError
"""

from __future__ import annotations


class ContainerFailure(Exception):
    reason = ""


class PullError(ContainerFailure):
    reason = "ErrImagePull"


class CreateError(ContainerFailure):
    reason = "CreateContainerError"


class ConfigError(ContainerFailure):
    reason = "CreateContainerConfigError"


class StartError(ContainerFailure):
    reason = "RunContainerError"

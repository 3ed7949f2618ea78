"""Names, labels and annotations: what strings Kubernetes accepts, and its sentences for the others.

Source: kubernetes, apimachinery pkg/util/validation/validation.go, pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from gpuready_sim.apiserver.field_errors import FieldError

LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN: Final = rf"{LABEL}(\.{LABEL})*"
DNS_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_VALUE: Final = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"

_subdomain = re.compile(SUBDOMAIN)
_label = re.compile(LABEL)
_dns_1035 = re.compile(DNS_1035)
_qualified = re.compile(QUALIFIED)
_value = re.compile(LABEL_VALUE)
_config_key = re.compile(CONFIG_KEY)

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
MOST_ANNOTATION_BYTES: Final = 256 * 1024


def subdomain_errors(text: str) -> list[str]:
    errors = [_too_long(253)] if len(text) > 253 else []
    if not _subdomain.fullmatch(text):
        errors.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
            "'.', and "
            "must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
            "validation is "
            f"'{SUBDOMAIN}')"
        )
    return errors


def port_name_errors(text: str) -> list[str]:
    """Source: kubernetes, apimachinery/pkg/util/validation/validation.go, IsValidPortName."""
    found = {
        "must be no more than 15 characters": len(text) > 15,
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)": not re.fullmatch(
            r"[-a-z0-9]+", text
        ),
        "must contain at least one letter (a-z)": not re.search(r"[a-z]", text),
        "must not contain consecutive hyphens": "--" in text,
        "must not begin or end with a hyphen": text[:1] == "-" or text[-1:] == "-",
    }
    return [message for message, is_so in found.items() if is_so]


def label_errors(text: str) -> list[str]:
    errors = [_too_long(63)] if len(text) > 63 else []
    if _subdomain.fullmatch(text) and "." in text:
        errors.append("must not contain dots")
    elif not _label.fullmatch(text):
        errors.append(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
            "must start "
            "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
            "validation is "
            f"'{LABEL}')"
        )
    return errors


def service_errors(text: str) -> list[str]:
    errors = [_too_long(63)] if len(text) > 63 else []
    if not _dns_1035.fullmatch(text):
        errors.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
            "alphabetic "
            "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex "
            "used for "
            f"validation is '{DNS_1035}')"
        )
    return errors


def path_segment_errors(text: str) -> list[str]:
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{one}'" for one in "/%" if one in text]


def config_key_errors(text: str) -> list[str]:
    errors = [_too_long(253)] if len(text) > 253 else []
    if not _config_key.fullmatch(text):
        errors.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
            "'key.name',  or "
            f"'KEY_NAME',  or 'key-name', regex used for validation is '{CONFIG_KEY}')"
        )
    return errors


def qualified_name_errors(text: str) -> list[str]:
    """A label or annotation key: an optional DNS prefix, a slash, a name of at most 63 characters."""
    prefix, slash, name = text.rpartition("/")
    errors: list[str] = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif "/" in prefix:
        return [
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start "
            "and end "
            "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
            f"validation is '{QUALIFIED}') with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')"
        ]
    elif slash:
        errors += [f"prefix part {error}" for error in subdomain_errors(prefix)]
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append("name part " + _too_long(63))
    if not _qualified.fullmatch(name):
        errors.append(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and "
            "end with an "
            "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
            "validation is "
            f"'{QUALIFIED}')"
        )
    return errors


def label_key_errors(text: str) -> list[str]:
    """In words of their own, where they differ from those of other keys."""
    return [
        error.replace("a qualified name must", "a valid label key must").replace(
            "no more than 63 characters", "no more than 63 bytes"
        )
        for error in qualified_name_errors(text)
    ]


def label_value_errors(text: str) -> list[str]:
    errors = ["must be no more than 63 bytes"] if len(text) > 63 else []
    if not _value.fullmatch(text):
        errors.append(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
            "'.', and "
            "must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
            f"regex used for validation is '{LABEL_VALUE}')"
        )
    return errors


def _too_long(most: int) -> str:
    return f"must be no more than {most} characters"


RULES: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "Namespace": label_errors,
    "Service": label_errors,
    "Role": path_segment_errors,
    "ClusterRole": path_segment_errors,
    "RoleBinding": path_segment_errors,
    "ClusterRoleBinding": path_segment_errors,
}


def validate_metadata(obj: Mapping[str, Any], *, core: bool = True) -> list[FieldError]:
    """Errors in an object's metadata, whatever its kind.

    core  it is of Kubernetes' own kinds, whose finalizers must name who removes them
    """
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return []
    errors: list[FieldError] = []
    name, prefix = metadata.get("name"), metadata.get("generateName")
    rule = RULES.get(str(obj.get("kind")), subdomain_errors)
    if prefix and rule(str(prefix).rstrip("-.") or "a"):
        errors += [FieldError("metadata.generateName", "Invalid", prefix, text) for text in rule(str(prefix))]
    if name:
        errors += [FieldError("metadata.name", "Invalid", name, text) for text in rule(str(name))]
    elif not prefix:
        errors.append(FieldError("metadata.name", "Required", detail="name or generateName is required"))
    errors += label_map_errors(metadata.get("labels"), "metadata.labels")
    errors += _annotation_errors(metadata.get("annotations"))
    for i, finalizer in enumerate(metadata.get("finalizers") or []):
        at = f"metadata.finalizers[{i}]"
        errors += finalizer_errors(finalizer, "metadata.finalizers", at, core=core)
    return errors + _owner_errors(metadata.get("ownerReferences"))


def embedded_metadata_errors(metadata: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Errors in the metadata of an object within another one, of a kind that nobody knows."""
    name = metadata.get("name") or "fakename"
    yield from (FieldError(f"{path}.name", "Invalid", name, text) for text in path_segment_errors(name))
    rest = {"metadata": {**metadata, "name": "fakename"}}
    for error in validate_metadata(rest, core=False):
        yield replace(error, path=path + error.path.removeprefix("metadata"))


def label_map_errors(labels: Any, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in (labels or {}).items():
        errors += [FieldError(path, "Invalid", key, text) for text in label_key_errors(key)]
        errors += [FieldError(path, "Invalid", value, text) for text in label_value_errors(str(value))]
    return errors


def _annotation_errors(annotations: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    size = 0
    for key, value in (annotations or {}).items():
        size += len(key) + len(str(value))
        errors += [
            FieldError("metadata.annotations", "Invalid", key, text)
            for text in qualified_name_errors(key.lower())
        ]
    if size > MOST_ANNOTATION_BYTES:
        detail = f"may not be more than {MOST_ANNOTATION_BYTES} bytes"
        errors.append(FieldError("metadata.annotations", "TooLong", detail=detail))
    return errors


def finalizer_warnings(new: Iterable[str], old: Iterable[str]) -> list[str]:
    """What is said of new finalizers of a custom resource that do not name who removes them.

    Source: kubernetes, apiextensions-apiserver pkg/registry/customresource/validator.go.
    """
    found = []
    for one in sorted(set(new) - set(old) - set(STANDARD_FINALIZERS)):
        if "/" not in one:
            path = " including a path (/)" if "." in one else ""
            advice = (
                f"prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other"
            )
            found.append(f'metadata.finalizers: "{one}": {advice} finalizer writers')
    return found


STANDARD_FINALIZERS: Final = ("orphan", "foregroundDeletion", "kubernetes")


def finalizer_errors(finalizer: Any, path: str, of_one: str = "", *, core: bool = True) -> list[FieldError]:
    """
    of_one  where a name without a domain is pointed at, when that is elsewhere
    core    a name without a domain is refused
    """
    errors = [FieldError(path, "Invalid", finalizer, text) for text in qualified_name_errors(str(finalizer))]
    if core and "/" not in str(finalizer) and finalizer not in STANDARD_FINALIZERS:
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        errors.append(FieldError(of_one or path, "Invalid", finalizer, detail))
    return errors


def _owner_errors(owners: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    controllers = []
    for owner in owners or []:
        for key, detail in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not owner.get(key):
                errors.append(
                    FieldError(f"metadata.ownerReferences.{key}", "Invalid", owner.get(key, ""), detail)
                )
        if str(owner.get("apiVersion")).count("/") > 1:
            at, why = "metadata.ownerReferences.apiVersion", "version must not be empty"
            errors.append(FieldError(at, "Invalid", owner["apiVersion"], why))
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            detail = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(FieldError("metadata.ownerReferences", "Invalid", owner, detail))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        found = " and ".join(controllers)
        detail = f'Only one reference can have Controller set to true. Found "true" in references for {found}'
        errors.append(FieldError("metadata.ownerReferences", "Invalid", owners, detail))
    return errors

"""What is wrong with a field, worded as the real API server words it.

Source: kubernetes, staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

WORDS = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "TypeInvalid": "Invalid value",
    "NotSupported": "Unsupported value",
    "Forbidden": "Forbidden",
    "Duplicate": "Duplicate value",
    "NotFound": "Not found",
    "TooLong": "Too long",
    "TooMany": "Too many",
    "Internal": "Internal error",
}
WITHOUT_VALUE = ("Required", "Forbidden", "TooLong", "Internal")
CAUSES = {
    "Required": "FieldValueRequired",
    "Invalid": "FieldValueInvalid",
    "TypeInvalid": "FieldValueTypeInvalid",
    "NotSupported": "FieldValueNotSupported",
    "Forbidden": "FieldValueForbidden",
    "Duplicate": "FieldValueDuplicate",
    "NotFound": "FieldValueNotFound",
    "TooLong": "FieldValueTooLong",
    "TooMany": "FieldValueTooMany",
    "Internal": "InternalError",
}


@dataclass(frozen=True)
class TypeName:
    """A value that is named by its type only: `Invalid value: "object"`."""

    name: str


@dataclass(frozen=True)
class InOrder:
    """A map that is shown in the order of the fields of a Go struct, not in that of its keys."""

    fields: Mapping[str, Any]


OMITTED: Final = TypeName("")
# The value of an error that tells none: `spec: Invalid value: image is immutable`.
NOWHERE: Final = "<nil>"
# The path of errors that name their field in the text, as the server prints it.


@dataclass(frozen=True)
class FieldError:
    """One complaint about one field.

    type    Required, Invalid, TypeInvalid, NotSupported, Forbidden, Duplicate, NotFound, TooLong, TooMany,
            Internal: causes of a 422; and two that are found while decoding:
            Unknown   an unknown (or duplicate) field: an error under fieldValidation=Strict, else a warning
            Decode    a value of the wrong type: a 400 always
    """

    path: str
    type: str
    value: Any = None
    detail: str = ""
    warning: bool = False

    def message(self) -> str:
        """The whole sentence, path first."""
        if self.type == "Unknown":
            return f'unknown field "{self.path}"'
        if self.type == "Decode":
            return self.detail
        return f"{self.path}: {self.body()}" if self.path else self.body()

    def body(self) -> str:
        """The sentence without the path, as it stands in status.details.causes[].message."""
        text = WORDS.get(self.type, self.type)
        if self.type not in WITHOUT_VALUE and self.value is not OMITTED:
            text += f": {shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def cause(self) -> dict[str, str]:
        """One entry of status.details.causes."""
        return {
            "reason": CAUSES.get(self.type, "FieldValueInvalid"),
            "message": self.body(),
            "field": self.path,
        }


def not_supported(path: str, value: Any, allowed: Iterable[str]) -> FieldError:
    detail = "supported values: " + ", ".join(json.dumps(one, ensure_ascii=False) for one in allowed)
    return FieldError(path, "NotSupported", value, detail)


def aggregate(errors: Sequence[FieldError]) -> str:
    """Several sentences as one: `[a, b]`; each text once."""
    texts = list(dict.fromkeys(error.message() for error in errors))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


_AS_GO_ESCAPES: Final = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}


def shown(value: Any) -> str:
    """A value as the server prints it, which is as JSON."""
    if isinstance(value, TypeName):
        value = value.name
    if isinstance(value, InOrder):
        text = json.dumps(value.fields, separators=(",", ":"), ensure_ascii=False)
        return text.translate(_AS_GO_ESCAPES)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)

"""The fields of a class as its options: flags, audit files and cache keys are made from them."""

from __future__ import annotations

from functools import wraps
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from divulge.errors import BadInput, refuse_unknown

C = TypeVar("C", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(Field,))
def option_class(cls: C) -> C:
    """Make the fields of a class its options: frozen, keyword-only, checked, unknown ones refused."""
    made: Any = checked_dataclass(
        frozen=True, kw_only=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True)
    )(cls)
    for base in cls.__mro__[1:]:  # pydantic forgets the sentences under the fields that a class inherits
        for name, told in getattr(base, "__pydantic_fields__", {}).items():
            field = made.__pydantic_fields__[name]
            field.description = field.description or told.description
    init = made.__init__

    @wraps(init)
    def checked_init(self: Any, *args: Any, **options: Any) -> None:
        refuse_unknown(options, made.__dataclass_fields__, f"options of {cls.__name__}")
        try:
            init(self, *args, **options)
        except ValidationError as error:
            raise BadInput(f"{cls.__name__}: {invalid_option(error)}") from None

    made.__init__ = checked_init
    return cast(C, made)


def invalid_option(error: ValidationError) -> str:
    """What is wrong with an option, in one sentence."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    problem = first["msg"][:1].lower() + first["msg"][1:]
    return f"option {where!r}: {problem}, got {first['input']!r}"

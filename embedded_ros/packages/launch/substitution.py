"""Text that is known only when a launch runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext


class Substitution:
    """Something that becomes text in the context of a launch."""

    def describe(self) -> str:
        """How it is shown to a reader of the launch description."""
        return f"{type(self).__name__}()"

    def perform(self, context: LaunchContext) -> str:
        """The text; SubstitutionFailure where there is none."""
        raise NotImplementedError(f"{type(self).__name__}.perform")


SomeSubstitutionsType: TypeAlias = "str | Substitution | Iterable[str | Substitution]"


class SubstitutionFailure(RuntimeError):
    """A substitution has no text in this context; the message says why."""


class TextSubstitution(Substitution):
    """Text as it is."""

    def __init__(self, *, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"TextSubstitution(text=...) expected str, got '{type(text).__name__}'")
        self.text = text

    def describe(self) -> str:
        return f"'{self.text}'"

    def perform(self, context: LaunchContext) -> str:
        return self.text


def normalize_to_list_of_substitutions(substitutions: SomeSubstitutionsType) -> list[Substitution]:
    """Text, a substitution, or several of both as a list; their texts are joined. TypeError for anything else."""
    if isinstance(substitutions, (str, Substitution)):
        substitutions = (substitutions,)
    return [_normalized(one) for one in substitutions]


def _normalized(one: object) -> Substitution:
    if isinstance(one, Substitution):
        return one
    if isinstance(one, str):
        return TextSubstitution(text=one)
    raise TypeError(f"expected str or launch.Substitution, got {one!r} of type '{type(one).__name__}'")


def perform_substitutions(context: LaunchContext, substitutions: Iterable[Substitution]) -> str:
    """Joined text of all."""
    return "".join(one.perform(context) for one in substitutions)


def describe(substitutions: Iterable[Substitution]) -> str:
    """How a list of substitutions is shown."""
    return " + ".join(one.describe() for one in substitutions)

"""Actions after a while."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from launch.action import Action
from launch.events import TimerEvent
from launch.launch_description_entity import LaunchDescriptionEntity
from launch.substitution import SomeSubstitutionsType
from launch.utilities.typed_values import normalize_typed, perform_typed

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext


class TimerAction(Action):
    """Visit entities after a period; never, where the launch ends or `cancel` is called before.

    Parameters
    ----------
    period
        Seconds.
    """

    def __init__(
        self,
        *,
        period: float | SomeSubstitutionsType,
        actions: Iterable[LaunchDescriptionEntity],
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.period = normalize_typed(period, float)
        self.actions = list(actions)
        self._cancelled = False
        self._context_locals: dict[str, Any] = {}

    def describe_conditional_sub_entities(self) -> Sequence[tuple[str, Sequence[LaunchDescriptionEntity]]]:
        return [("the period passes", self.actions)]

    def cancel(self) -> None:
        """Do not visit the entities, if they have not been yet."""
        self._cancelled = True

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled

    def execute(self, context: LaunchContext) -> None:
        if self._cancelled:
            return
        self._context_locals = context.get_locals_as_dict()
        period_s = perform_typed(context, self.period, float)
        context.service.wait_for_timer(self, period_s, lambda: context.emit_event_sync(TimerEvent(timer_action=self)))

    def handle(self, context: LaunchContext) -> Sequence[LaunchDescriptionEntity]:
        """The entities, once the period has passed."""
        context.extend_locals(self._context_locals)
        return [] if self._cancelled else self.actions

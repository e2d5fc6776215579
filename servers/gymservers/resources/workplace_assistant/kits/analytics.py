"""The analytics of the company's web site."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from gymservers.resources.workplace_assistant.kits.kit import Desk, about, changes, reads

__all__ = ["Analytics"]

VALUES = (
    "total_visits",
    "session_duration_seconds",
    "user_engaged",
    "visits_direct",
    "visits_referral",
    "visits_search_engine",
    "visits_social_media",
)
PLOT_TYPES = ("bar", "line", "scatter", "histogram")

FirstDay = Annotated[str, about("The first day, YYYY-MM-DD.")]
LastDay = Annotated[str, about("The last day, YYYY-MM-DD.")]


class Analytics:
    """Six tools over the visits; the only thing that they change is the list of plots."""

    @reads
    def analytics_get_visitor_information_by_id(
        self, session: Desk, visitor_id: Annotated[str, about("The id of the visitor.")]
    ) -> Any:
        """Get all visits of a visitor."""
        found = [visit for visit in session.state.visits if visit["visitor_id"] == visitor_id]
        return found or "There is no visitor with this id."

    @changes
    def analytics_create_plot(
        self,
        session: Desk,
        time_min: FirstDay,
        time_max: LastDay,
        value_to_plot: Annotated[str, about(f"What to plot: {', '.join(VALUES)}.")],
        plot_type: Annotated[str, about(f"How to plot it: {', '.join(PLOT_TYPES)}.")],
    ) -> Any:
        """Plot a value over days; the answer is the file of the plot."""
        if not (time_min and time_max):
            return "A plot needs a first and a last day."
        if value_to_plot not in VALUES:
            return f"value_to_plot is one of: {', '.join(VALUES)}."
        if plot_type not in PLOT_TYPES:
            return f"plot_type is one of: {', '.join(PLOT_TYPES)}."
        path = f"plots/{time_min}_{time_max}_{value_to_plot}_{plot_type}.png"
        session.state.plots.add({"file_path": path})
        return path

    @reads
    def analytics_total_visits_count(
        self, session: Desk, time_min: FirstDay = "", time_max: LastDay = ""
    ) -> Any:
        """Count the visits of each day."""
        return _by_day(session, time_min, time_max, lambda visits: len(visits))

    @reads
    def analytics_engaged_users_count(
        self, session: Desk, time_min: FirstDay = "", time_max: LastDay = ""
    ) -> Any:
        """Count the engaged users of each day."""
        return _by_day(session, time_min, time_max, lambda visits: sum(x["user_engaged"] for x in visits))

    @reads
    def analytics_traffic_source_count(
        self,
        session: Desk,
        time_min: FirstDay = "",
        time_max: LastDay = "",
        traffic_source: Annotated[
            str,
            about("Whose visits to count: direct, referral, search engine or social media; default: all."),
        ] = "",
    ) -> Any:
        """Count the visits of each day that came from a traffic source."""

        def count(visits: list[dict[str, Any]]) -> int:
            return sum(not traffic_source or visit["traffic_source"] == traffic_source for visit in visits)

        return _by_day(session, time_min, time_max, count)

    @reads
    def analytics_get_average_session_duration(
        self, session: Desk, time_min: FirstDay = "", time_max: LastDay = ""
    ) -> Any:
        """Get the average length of the visits of each day, in seconds."""

        def average(visits: list[dict[str, Any]]) -> float:
            return math.fsum(float(visit["session_duration_seconds"]) for visit in visits) / len(visits)

        return _by_day(session, time_min, time_max, average)


def _by_day(session: Desk, time_min: str, time_max: str, value: Callable[[Any], float]) -> dict[str, float]:
    """A value of the visits of each day, in the order of the days. Bounds are compared as text."""
    days: dict[str, list[dict[str, Any]]] = {}
    for visit in session.state.visits:
        day = visit["date_of_visit"]
        if day >= time_min and (not time_max or day <= time_max):
            days.setdefault(day, []).append(visit)
    return {day: value(days[day]) for day in sorted(days)}

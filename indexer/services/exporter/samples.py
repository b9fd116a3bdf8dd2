"""Samples under names: what becomes the text that Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class Families:
    """Collects samples under names, each with the schema as its first label."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._made: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}

    def gauge(
        self, name: str, text: str, value: float | None, /, **labels: str
    ) -> None:
        """Add a sample of a gauge; None is left out."""
        if name not in self._made:
            self._made[name] = GaugeMetricFamily(name, text, labels=["schema", *labels])
        if value is not None:
            self._made[name].add_metric([self._schema, *labels.values()], value)

    def counter(self, name: str, text: str, value: float | None) -> None:
        """Add a sample of a counter, whose name gets ``_total``; None is left out."""
        if name not in self._made:
            self._made[name] = CounterMetricFamily(name, text, labels=["schema"])
        if value is not None:
            self._made[name].add_metric([self._schema], value)

    def metrics(self) -> Iterator[Metric]:
        """Yield what was collected."""
        yield from self._made.values()

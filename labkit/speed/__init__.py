"""How long things take, on this device and on others: measure, profile, compare with recorded figures. Chapter 08."""

from labkit.speed.bench import Bench, updates
from labkit.speed.clock import Comparison, compare
from labkit.speed.compiling import CountingBackend, graph_breaks, graphs_after, translated
from labkit.speed.measurements import MEASUREMENTS, measure
from labkit.speed.operations import Operations, profile_operations
from labkit.speed.recorded import Record, record, records
from labkit.speed.simulation import simulated
from labkit.speed.timeline import Timeline, timeline
from labkit.speed.waits import Waits

__all__ = [
    "MEASUREMENTS",
    "Bench",
    "Comparison",
    "CountingBackend",
    "Operations",
    "Record",
    "Timeline",
    "Waits",
    "compare",
    "graph_breaks",
    "graphs_after",
    "measure",
    "profile_operations",
    "record",
    "records",
    "simulated",
    "timeline",
    "translated",
    "updates",
]

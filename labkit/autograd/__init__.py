"""Autograd, opened up: an engine from nothing, the real graph as data, and what `autograd.grad` is good for."""

from labkit.autograd import recipes, scratch, switches
from labkit.autograd.steps import Step, steps, watch
from labkit.autograd.trace import Graph, Node, trace

__all__ = ["Graph", "Node", "Step", "recipes", "scratch", "steps", "switches", "trace", "watch"]

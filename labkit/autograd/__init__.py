"""Autograd, opened up: an engine from nothing, the real graph as data, and what `autograd.grad` is good for."""

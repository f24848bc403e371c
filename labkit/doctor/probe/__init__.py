"""Probes run the pieces of a program on copies and write down what they see; they judge nothing."""

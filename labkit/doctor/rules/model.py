"""What is wrong with the model: rules from the evidence to a finding."""

from labkit.doctor.rules import model_answers, model_graph, model_layers, model_layout, model_start

RULES = [*model_graph.RULES, *model_start.RULES, *model_answers.RULES, *model_layers.RULES, *model_layout.RULES]

"""What is wrong with the start: equal units, weights that explode, units that never fire, gradients that vanish."""

import math

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.data_mends import standardised, to_one
from labkit.doctor.rules.model_mends import he_weights, leaky, rectified_signals, unit_signals
from labkit.doctor.rules.words import names_of

LARGEST_GAIN, SMALLEST_GAIN = 5.0, 0.05  # spread of weights x root of inputs; He's are 1.41


def equal_units(evidence: Evidence) -> Finding | None:
    """All units of a layer, or whole layers, are equal and stay equal."""
    start = evidence.model.start
    if start.equal_rows:
        name, (count, left) = max(start.equal_rows.items(), key=lambda item: item[1][0])
        what = (
            f"All {count} rows of {name} were equal at the start, and after {evidence.updates.watched} updates "
            f"{left} different rows are left ({len(start.equal_rows)} such matrices: "
            f"{names_of(list(start.equal_rows))})."
        )
        first = name
    elif start.twins:
        first, second = start.twins[0]
        what = (
            f"{first} and {second} have equal values at the start and still after {evidence.updates.watched} updates "
            f"({len(start.twins)} such pairs)."
        )
    else:
        return None
    return Finding(
        "bad_init",
        "fail",
        what,
        "Units with equal weights get equal gradients, so they stay one unit for ever; zeros pass nothing on at all.",
        f"nn.init.kaiming_uniform_(model.get_parameter({first!r}), nonlinearity='relu')",
        f"model.get_parameter({first!r}).unique(dim=0) has as many rows as the parameter",
        "04",
        mend=he_weights,
        weight=8,
        explains=("dead_units", "vanishing_gradient", "model_too_weak", "lr_too_low", "lr_too_high", "step_missing"),
    )


def too_large(evidence: Evidence) -> Finding | None:
    """Weights far above what their inputs allow, and a loss far above that of guessing."""
    start = evidence.model.start
    large = {name: gain for name, gain in start.gains.items() if gain > LARGEST_GAIN}
    if not large or start.first_loss is None:
        return None
    guess = (
        math.log(start.outputs[1]) if start.class_targets and len(start.outputs) > 1 and start.outputs[1] > 1 else 1.0
    )
    if math.isfinite(start.first_loss) and start.first_loss < 1.2 * guess:
        return None
    name, gain = max(large.items(), key=lambda item: item[1])
    return Finding(
        "bad_init",
        "warn",
        f"The weights of {name} are {gain / math.sqrt(2):.1f} times as large as suits their number of inputs, and the "
        f"first loss is {start.first_loss:.3g}, where guessing gives about {guess:.3g}.",
        "Each such layer makes the signal larger, so the first steps only undo the start.",
        f"nn.init.kaiming_normal_(model.get_parameter({name!r}))  # spread root(2 / inputs)",
        f"the first loss is near {guess:.3g}",
        "04",
        mend=he_weights,
        confirm=True,
        weight=6,
        explains=("lr_too_high", "input_scale"),
    )


def too_small(evidence: Evidence) -> Finding | None:
    """Weights far below what their inputs need: signals and gradients shrink from layer to layer."""
    gains = evidence.model.start.gains
    small = {name: gain for name, gain in gains.items() if gain < SMALLEST_GAIN}
    if len(small) < 2 or len(small) < len(gains) - 1:
        return None
    name, gain = min(small.items(), key=lambda item: item[1])
    return Finding(
        "bad_init",
        "warn",
        f"{len(small)} of {len(gains)} weight matrices are far too small for their number of inputs, {name} by a "
        f"factor of {math.sqrt(2) / max(gain, 1e-12):.0f}.",
        "Each such layer makes the signal smaller, and the gradient on its way back too.",
        f"nn.init.kaiming_normal_(model.get_parameter({name!r}))  # spread root(2 / inputs)",
        "the activations of all layers have about the same spread",
        "04",
        mend=he_weights,
        confirm=True,
        weight=4,
        explains=("lr_too_low",),
    )


def all_dead(evidence: Evidence) -> Finding | None:
    """A whole layer of rectified units gives exactly zero on every sample."""
    start = evidence.model.start
    dead = {layer: name for layer, (share, name) in start.dead.items() if share == 1.0}
    if not dead or start.samples < 64:
        return None
    layer, name = next(iter(dead.items()))
    return Finding(
        "dead_units",
        "fail",
        f"Every unit behind {layer} ({name}) is exactly zero on all of {start.samples} samples.",
        "Where a rectifier gives zero its gradient is zero: nothing before it learns, and nothing gets past it.",
        "# before the rectifier: inputs with mean zero, weights of both signs, a bias near zero, no other activation\n"
        "nn.init.kaiming_normal_(layer.weight, nonlinearity='relu'); nn.init.zeros_(layer.bias)",
        "(activation > 0).any(dim=0).float().mean() is near 1",
        "04",
        mend=he_weights,
        instead=((leaky, ""),),
        weight=7,
        explains=("vanishing_gradient", "model_too_weak", "lr_too_low", "lr_too_high"),
    )


def mostly_dead(evidence: Evidence) -> Finding | None:
    """More than half of a layer's units never fire, and leaky ones learn better."""
    start = evidence.model.start
    dead = {layer: share for layer, (share, _) in start.dead.items() if 0.5 < share < 1.0}
    if not dead or start.samples < 256:
        return None
    layer, share = max(dead.items(), key=lambda item: item[1])
    return Finding(
        "dead_units",
        "warn",
        f"{100 * share:.0f} % of the units behind {layer} are exactly zero on all of {start.samples} samples.",
        "A unit that never fires gets no gradient and never comes back.",
        "nn.LeakyReLU(0.1)  # or weights and inputs with mean zero",
        "(activation > 0).any(dim=0).float().mean() is near 1",
        "04",
        mend=leaky,
        instead=((he_weights, ""),),
        confirm=True,
        weight=3,
    )


def vanishing(evidence: Evidence) -> Finding | None:
    """The gradient of the first matrix is next to nothing beside that of the last."""
    start = evidence.model.start
    if not start.ends or evidence.updates.kept:
        return None
    (first, small), (last, large) = start.ends
    if not large or small / large > 1e-3 or small > 1e-3:
        return None
    return Finding(
        "vanishing_gradient",
        "warn",
        f"In {evidence.updates.watched} updates the gradient of {first} is at most "
        f"{small / large:.1g} times that of {last} (norms {small:.2g} and {large:.2g}).",
        "Every layer multiplies the gradient by its own slope; where slopes are below one, little is left in the end.",
        "# ReLU or SiLU in place of sigmoid or tanh, nn.init.kaiming_normal_, a norm layer, or x = x + block(x)",
        "the gradient norms of the first and the last layer differ by less than a factor of 100",
        "04",
        mend=unit_signals,
        instead=((rectified_signals, ""),),
        confirm=True,
        updates=60,
        weight=5,
        explains=("lr_too_low", "model_too_weak", "bad_init"),
    )


def inputs_of_another_size(evidence: Evidence) -> Finding | None:
    """What reaches the model is far from size 1, although the stored samples did not show it."""
    given = evidence.model.start.inputs
    if given is None or not (given[1] > 8 or abs(given[0]) > 5 * given[1] > 0):
        return None
    if evidence.data.values.mean is not None:
        return None  # the rule about the values of the samples knows better
    return Finding(
        "input_scale",
        "warn",
        f"What the model is given has mean {given[0]:.3g} and deviation {given[1]:.3g}.",
        "Initial weights and usual learning rates are made for inputs of size 1.",
        "x = x / 255  # bytes; or (x - mean) / std, with the numbers of the training data",
        "x.mean() is near 0 and x.std() near 1 where model(x) is called",
        "07",
        mend=standardised,
        instead=((to_one, ""),),
        confirm=True,
        weight=6,
        explains=("lr_too_high", "lr_too_low", "dead_units", "bad_init"),
    )


RULES = [equal_units, too_large, too_small, all_dead, mostly_dead, vanishing, inputs_of_another_size]

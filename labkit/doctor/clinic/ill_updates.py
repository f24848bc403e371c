"""Cases in which the weights are moved wrongly: the optimizer, its rate, the order of the five lines."""

from labkit.doctor.clinic.case import Case
from labkit.doctor.clinic.scripts import DIGITS, ROWS

RATE = "lr=0.1, momentum=0.9)"
ADAM = ("torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)", "torch.optim.Adam(model.parameters(), lr=0.002)")
CLEAR = "    optimizer.zero_grad()\n"
STEP = "    optimizer.step()\n"
ALL = "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)"
SCHEDULE = (
    "lr=0.1, momentum=0.9)\n",
    "lr=0.1, momentum=0.9)\nscheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.3)\n",
)
PER_EPOCH = (
    "evaluate(model, val_loader))\n",
    "evaluate(model, val_loader))\n    scheduler.step()\n",
)

UPDATE_CASES = [
    Case(
        name="wren",
        level=1,
        label="lr_too_high",
        chapter="05_training_loop",
        script=DIGITS,
        story="“I wanted it to be quick. The loss jumps about, and the score is hardly better than guessing.”",
        explanation="Each update moves the weights by a large share of their size: it lands beyond the valley that the "
        "gradient points into. The units are thrown about until many of them never fire again.",
        cure="Take a tenth of the learning rate, or find one by a trial: `labkit trial learning-rate`.",
        fault=((RATE, "lr=3.0, momentum=0.9)"),),
        gap=0.3,
    ),
    Case(
        name="snail",
        level=1,
        label="lr_too_low",
        chapter="05_training_loop",
        script=DIGITS,
        story="“It is stable, nothing jumps. But after eight epochs it knows next to nothing.”",
        explanation="Gradients are there, and each update follows them, by less than a ten-thousandth of the weights' "
        "size. The loss falls on a line that is nearly flat.",
        cure="Take a larger learning rate: weights should move by about a thousandth of their size at each update.",
        fault=((RATE, "lr=0.0001, momentum=0.9)"),),
        gap=0.3,
    ),
    Case(
        name="heron",
        level=1,
        label="step_missing",
        chapter="05_training_loop",
        script=DIGITS,
        story="“The gradients look fine. The curves are level, as if drawn with a ruler.”",
        explanation="backward() computes the gradients and step() uses them. It is called for the smaller last batch "
        "only, and 1,000 samples have none: no weight has moved at all.",
        cure="Call optimizer.step() after each backward().",
        fault=((STEP, "    if len(labels) < 50:\n        optimizer.step()\n"),),
        gap=0.5,
    ),
    Case(
        name="stork",
        level=1,
        label="zero_grad_misplaced",
        chapter="05_training_loop",
        script=DIGITS,
        story="“All five lines are there, I have checked. It does not learn anything.”",
        explanation="The gradients are cleared between backward() and step(): the optimizer finds none.",
        cure="Clear before backward(): zero_grad, forward, backward, step.",
        fault=((CLEAR, ""), ("    loss.backward()\n", "    loss.backward()\n" + CLEAR)),
        gap=0.5,
    ),
    Case(
        name="otter",
        level=2,
        label="zero_grad_misplaced",
        chapter="05_training_loop",
        script=DIGITS,
        story="“It begins well, then it gets worse and worse, and the gradients grow.”",
        explanation="backward() adds to the gradients that are there. They are never cleared: the optimizer reads the "
        "sum of all batches so far: directions that were right long ago count as much as today's.",
        cure="Call optimizer.zero_grad() once for each update.",
        fault=((CLEAR, ""),),
        gap=0.3,
    ),
    Case(
        name="finch",
        level=2,
        label="param_not_optimised",
        chapter="05_training_loop",
        script=DIGITS,
        story="“It learns, only much less than my colleague's network, and that one has the same layers.”",
        explanation="The optimizer was given the last layer alone. The gradients of the others are computed and thrown "
        "away: their weights move by exactly 0.",
        cure="Pass model.parameters(), all of them.",
        fault=(("SGD(model.parameters()", "SGD(model[-1].parameters()"),),
        gap=0.02,
    ),
    Case(
        name="eagle",
        level=2,
        label="scheduler_misuse",
        chapter="05_training_loop",
        script=DIGITS,
        setting=(SCHEDULE, PER_EPOCH),
        story="“A third of the rate every 4 epochs, as in the paper. The loss falls for a moment, then stands still.”",
        explanation="The schedule counts epochs, but its step() is called after every update: after 40 updates, two "
        "epochs, the rate is a 100,000th of what it was.",
        cure="Step this schedule once an epoch, after the optimizer has stepped.",
        fault=(("\n    scheduler.step()\n", "\n"), (STEP, STEP + "    scheduler.step()\n")),
        gap=0.1,
    ),
    Case(
        name="mole",
        level=2,
        label="weight_decay_too_high",
        chapter="05_training_loop",
        script=DIGITS,
        story="“I was afraid of overfitting, so I took precautions. Now it fits nothing at all.”",
        explanation="Each update pulls every weight towards 0 by rate times decay, 5 %. The loss cannot hold against "
        "that: the activations shrink until all pictures look alike.",
        cure="Take a usual weight decay, 1e-4 to 1e-2.",
        fault=((RATE, "lr=0.1, momentum=0.9, weight_decay=0.5)"),),
        gap=0.3,
    ),
    Case(
        name="lynx",
        level=3,
        label="optimizer_recreated",
        chapter="05_training_loop",
        script=DIGITS,
        setting=((ALL, "torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.98)"),),
        story="“With momentum 0.98 it should run. It crawls as if there were none.”",
        explanation="A new optimizer is made for each update. It has no memory: momentum, which would make steps up "
        "to fifty times longer, begins at zero each time.",
        cure="Make the optimizer once, before the loop.",
        fault=((CLEAR, "    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.98)\n" + CLEAR),),
        gap=0.1,
    ),
    Case(
        name="badger",
        level=3,
        label="clip_misplaced",
        chapter="05_training_loop",
        script=ROWS,
        setting=(
            (ALL, "torch.optim.SGD(model.parameters(), lr=8.0)"),
            (STEP, "    nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n" + STEP),
        ),
        story="“Gradients are clipped to 0.1, as everybody does with a GRU. It jumps all the same.”",
        explanation="The clipping stands after step(): the optimizer has read the full gradients by then, and what is "
        "clipped is thrown away at the next zero_grad().",
        cure="Clip between backward() and step().",
        fault=(
            (
                "    nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n" + STEP,
                STEP + "    nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n",
            ),
        ),
        gap=0.1,
    ),
    Case(
        name="toad",
        level=3,
        label="grad_accumulation_scale",
        chapter="05_training_loop",
        script=DIGITS,
        setting=(
            ("batch_size=50, shuffle", "batch_size=5, shuffle"),
            (
                "    images, labels = batch\n    optimizer.zero_grad()\n    loss = loss_fn(model(images), labels)\n"
                "    loss.backward()\n    optimizer.step()\n",
                '    optimizer.seen = getattr(optimizer, "seen", 0) + 1\n    images, labels = batch\n'
                "    loss = loss_fn(model(images), labels)\n    (loss / 10).backward()\n"
                "    if optimizer.seen % 10 == 0:\n        optimizer.step()\n        optimizer.zero_grad()\n",
            ),
            (RATE, "lr=0.2, momentum=0.9)"),
        ),
        story="“My memory holds 5 pictures, so I add up ten batches. With batches of 50 the same rate was fine.”",
        explanation="Ten means of 5 are added, not averaged: the gradient is ten times that of a batch of 50, so the "
        "rate is in truth ten times higher.",
        cure="Divide the loss by the number of batches that are added up.",
        fault=(("(loss / 10).backward()", "loss.backward()"),),
        gap=0.1,
        also=("loss_scaling",),
    ),
    Case(
        name="cuckoo",
        level=2,
        label="weights_reset",
        chapter="05_training_loop",
        script=DIGITS,
        setting=(
            (
                "loss_fn = nn.CrossEntropyLoss()\n",
                "\n\ndef prepare(layer):\n    if isinstance(layer, nn.Linear):\n"
                "        nn.init.kaiming_normal_(layer.weight)\n"
                "\n\nmodel.apply(prepare)\nloss_fn = nn.CrossEntropyLoss()\n",
            ),
        ),
        story="“In every epoch it learns, and at the beginning of the next it seems to have forgotten.”",
        explanation="The weights are drawn anew whenever the optimizer has stepped twenty times: what was learned "
        "until then is gone, only the biases stay.",
        cure="Initialise once, before the optimizer is made.",
        fault=(
            ("model.apply(prepare)\n", ""),
            (
                "    images, labels = batch\n",
                '    images, labels = batch\n    model.updates = getattr(model, "updates", 0)\n'
                "    if model.updates % 20 == 0:\n        model.apply(prepare)\n    model.updates += 1\n",
            ),
        ),
        gap=0.04,
    ),
]

"""Fixes of an update: the user's step still runs, what was wrong in it has no effect, and copies are mended too."""

import copy

import pytest
import torch
import torch.nn as nn
from torch.nn import functional

from labkit.doctor.program import Program, usual_step
from labkit.doctor.rules import update_mends as mends
from labkit.doctor.rules import weight_mends
from labkit.doctor.rules.mends import without_penalty
from labkit.keeping import same_bits
from tests.doctor.small import program


def mended(mend, **changes) -> Program:
    """Return a copy of a mended copy: a fix belongs to the program that it has mended."""
    first = program(**changes).copy()
    mend(first)
    return first.copy()


def updates(one: Program, count: int = 3) -> list:
    one.model.train()
    return [one.step(batch) for _, batch in zip(range(count), one.train_loader, strict=False)]


def weights(one: Program) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in one.model.named_parameters()}


def same_weights(one: Program, other: Program) -> bool:
    pairs = zip(one.model.parameters(), other.model.parameters(), strict=True)
    return all(same_bits(a, b) for a, b in pairs)


def side_by_side(one: Program, other: Program, count: int = 3) -> bool:
    """Say whether two programs end with the same bits after some updates on the same batches."""
    for each in (one, other):
        torch.manual_seed(3)
        updates(each, count)
    return same_weights(one, other)


def without_clearing(model, batch, loss_fn, optimizer):
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.item()


def test_gradients_are_cleared_as_the_usual_step_clears_them():
    assert side_by_side(mended(mends.cleared_before_each_update, train_step=without_clearing), program())
    assert not side_by_side(program(train_step=without_clearing), program())


def test_gradients_of_a_window_that_is_not_over_stay():
    count = 0

    def windows_of_two(model, batch, loss_fn, optimizer):
        nonlocal count
        (loss_fn(model(batch[0]), batch[1]) / 2).backward()
        count += 1
        if count % 2 == 0:
            optimizer.step()

    one = mended(mends.cleared_before_each_update, train_step=windows_of_two)
    updates(one, 3)
    batch = next(iter(one.train_loader))
    after_one = [parameter.grad.clone() for parameter in one.model.parameters()]
    one.step(batch)
    assert not any(torch.equal(p.grad, old) for p, old in zip(one.model.parameters(), after_one, strict=True))


def test_a_window_that_was_not_divided_acts_as_the_divided_one():
    def window(share: float):
        count = 0

        def step(model, batch, loss_fn, optimizer):
            nonlocal count
            (loss_fn(model(batch[0]), batch[1]) / share).backward()
            count += 1
            if count % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()

        return step

    one, other = mended(mends.gradients_times(1 / 4), train_step=window(1.0)), program(train_step=window(4.0))
    assert side_by_side(one, other, 8)


def clips(where: str, limit: float = 0.01):
    def step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        if where == "before":
            nn.utils.clip_grad_norm_(model.parameters(), limit)
        loss.backward()
        if where in ("between", "bias"):
            nn.utils.clip_grad_norm_(model.parameters() if where == "between" else model[2].bias, limit)
        optimizer.step()
        if where == "after":
            nn.utils.clip_grad_norm_(model.parameters(), limit)
        return loss.item()

    return step


@pytest.mark.parametrize("where", ["before", "after", "bias"])
def test_clipping_comes_to_its_place(where):
    one, sound = mended(mends.clipped_at_the_step, train_step=clips(where)), program(train_step=clips("between"))
    assert side_by_side(one, sound)
    assert not side_by_side(program(train_step=clips(where)), program(train_step=clips("between")))


def test_what_a_scaler_multiplied_is_clipped_after_it_is_divided_again():
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        scaler.scale(loss_fn(model(batch[0]), batch[1])).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        scaler.step(optimizer)
        scaler.update()

    one, sound = mended(mends.clipped_at_the_step, train_step=step), program(train_step=clips("between"))
    for each in (one, sound):
        torch.manual_seed(3)
        updates(each)
    for a, b in zip(one.model.parameters(), sound.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_only_optimizers_write_into_the_weights():
    def initialise(layer):
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            layer.bias.data = torch.zeros_like(layer.bias)

    def resets(model, batch, loss_fn, optimizer):
        model.apply(initialise)
        model[0].reset_parameters()
        loss = usual_step(model, batch, loss_fn, optimizer)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.5)
                parameter[0] = 7.0
        model.load_state_dict({name: torch.zeros_like(value) for name, value in model.state_dict().items()})
        return loss

    one = mended(weight_mends.written_by_optimizers_only, train_step=resets)
    before = weights(one)
    updates(one, 1)
    moved = {name: (value - before[name]).norm().item() for name, value in weights(one).items()}
    assert all(0 < change < 0.5 for change in moved.values())
    with torch.no_grad():
        one.model[0].weight.zero_()  # outside of an update everybody may write
    assert not one.model[0].weight.any()


class Forgets(nn.Linear):
    def forward(self, x):
        self.reset_parameters()
        return super().forward(x)


def test_a_forward_pass_does_not_reset_weights_either():
    one = program()
    one.model[2] = Forgets(16, 2)
    weight_mends.written_by_optimizers_only(one)
    before = weights(one)
    one.model(torch.zeros(1, 6))
    assert same_bits(one.model[2].weight, before["2.weight"])


def test_frozen_weights_stay_under_momentum_and_decay():
    def settles(model, batch, loss_fn, optimizer):
        usual_step(model, batch, loss_fn, optimizer)
        model[0].requires_grad_(False)

    def zeroes(model, batch, loss_fn, optimizer):
        optimizer.zero_grad(set_to_none=False)
        loss_fn(model(batch[0]), batch[1]).backward()
        if model[0].weight.grad is not None:
            model[0].weight.grad.zero_()
        optimizer.step()

    one = program(train_step=zeroes)
    one.optimizer = torch.optim.AdamW(one.model.parameters(), weight_decay=0.1)
    sick = one.copy()
    weight_mends.still(["0.weight"])(one)
    one, begin = one.copy(), weights(one)
    updates(one), updates(sick)
    assert same_bits(one.model[0].weight, begin["0.weight"]) and not same_bits(one.model[2].weight, begin["2.weight"])
    assert not same_bits(sick.model[0].weight, begin["0.weight"])


def test_parts_are_frozen_by_name_and_with_what_is_around_them():
    one = program()
    one.model[0].requires_grad = False
    weight_mends.frozen(["0"])(one)
    assert [p.requires_grad for p in one.model.parameters()] == [False, False, True, True]
    assert "requires_grad" not in vars(one.model[0])

    class Tuned(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)), nn.Linear(4, 2)

        def train(self, mode=True):
            super().train(mode)
            self.body.eval()
            return self

        def forward(self, x):
            return self.head(self.body(x))

    other = program(model=Tuned())
    weight_mends.frozen_as_evaluated(["body.0"])(other)
    assert {name for name, p in other.model.named_parameters() if p.requires_grad} == {"head.weight", "head.bias"}


def test_an_update_learns_in_the_modes_in_which_it_began():
    def glances(model, batch, loss_fn, optimizer):
        model.eval()
        with torch.no_grad():
            seen.append(model(batch[0]).shape)
        assert not model.training
        return usual_step(model, batch, loss_fn, optimizer)

    seen: list = []
    model = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    one = mended(mends.in_the_modes_it_began_with, model=model, optimizer=optimizer, train_step=glances)
    updates(one, 3)
    assert one.model[0].num_batches_tracked == 3 and one.model.training and seen == []


def test_no_graph_outlives_its_update():
    kept = {"last": None, "all": [], "pair": ()}

    class Memory(nn.Linear):
        state = None

        def forward(self, x):
            self.state = (super().forward(x), x.mean())
            return self.state[0]

    model = nn.Sequential(Memory(6, 2))

    def keeps(model, batch, loss_fn, optimizer):
        loss = loss_fn(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept["last"] = loss
        kept["all"].append(loss)
        kept["pair"] = (loss, 1)

    one = program(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), train_step=keeps)
    mends.without_old_graphs(one)
    updates(one, 2)
    tensors = [kept["last"], kept["pair"][0], *kept["all"], model[0].state[0]]
    assert len(kept["all"]) == 2 and all(tensor.grad_fn is None for tensor in tensors)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_penalty_in_the_loss_teaches_nothing_any_more():
    plain = program()
    sick = program()
    model = sick.model
    sick.loss_fn = lambda outputs, targets: functional.cross_entropy(outputs, targets) + 3 * model[0].weight.norm()
    without_penalty(sick)
    batch = next(iter(plain.train_loader))
    for one in (plain, copy.copy(sick)):
        one.loss_fn(one.model(batch[0]), batch[1]).backward()
    for one, other in zip(plain.model.parameters(), sick.model.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    with torch.no_grad():
        assert sick.loss_fn(sick.model(batch[0]), batch[1]) > plain.loss_fn(plain.model(batch[0]), batch[1])

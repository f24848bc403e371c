"""Errors that are none of the explainer's business: it says nothing, rather than a wrong cause."""

import asyncio
import configparser
import copy
import decimal
import json
import pickle
import queue
import socket
import struct
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn as nn

from labkit.doctor.explain import explain_exception

UNRELATED: list[Callable[[], object]] = []


def unrelated(function: Callable[[], object]) -> Callable[[], object]:
    """Declare a function whose error must not be explained."""
    UNRELATED.append(function)
    return function


# What people raise themselves, in words that PyTorch uses too


@unrelated
def a_value_error_about_shapes():
    images = torch.rand(3, 4)
    if images.shape != (3, 5):
        raise ValueError(f"wrong shape: expected (3, 5), got {tuple(images.shape)}")


@unrelated
def a_runtime_error_in_the_words_of_a_product():
    raise RuntimeError("mat1 and mat2 shapes cannot be multiplied, says our own check of the configuration")


@unrelated
def an_own_class_of_error():
    class ShapeError(Exception):
        pass

    raise ShapeError("expected input[2, 28, 28, 3] to have 3 channels, but got 28 channels instead")


@unrelated
def an_own_error_about_memory():
    class Budget(RuntimeError):
        pass

    raise Budget("out of memory: the plan allows 4 jobs")


@unrelated
def an_own_error_about_devices():
    raise OSError("Expected all tensors to be on the same device, but the disk is full")


@unrelated
def an_own_index_error():
    raise IndexError("Target 3 is out of bounds.")


@unrelated
def an_own_type_error():
    raise TypeError("forward() argument 'input' (position 1) must be Tensor, not Recipe")


@unrelated
def an_assertion_about_a_batch():
    batch = torch.zeros(3, 2)
    assert len(batch) == 4, f"Size mismatch between tensors: {len(batch)} is not 4"


@unrelated
def an_assertion_without_words():
    loss = torch.tensor(float("inf"))
    assert torch.isfinite(loss)


@unrelated
def a_forward_that_is_not_written_yet():
    class Plan(nn.Module):
        def forward(self, x):
            raise NotImplementedError("the decoder comes next week")

    Plan()(torch.rand(2))


@unrelated
def a_check_in_a_forward():
    class Careful(nn.Module):
        def forward(self, x):
            if x.ndim != 4:
                raise ValueError(f"expected 4D input (got {x.ndim}D input)")
            return x

    nn.Sequential(nn.Identity(), Careful())(torch.rand(2, 3))


# Python's own


@unrelated
def a_key_that_is_not_there():
    config = {"learning_rate": 0.1}
    return config["lr"]


@unrelated
def a_key_of_a_checkpoint():
    checkpoint = {"state_dict": nn.Linear(1, 1).state_dict()}
    return checkpoint["model"]


@unrelated
def a_file_that_is_not_there():
    torch.load("no/such/file.pt")


@unrelated
def a_text_that_is_not_there():
    with open("no/such/labels.csv", encoding="utf-8") as file:
        return file.read()


@unrelated
def a_division_by_zero():
    correct, count = 0, 0
    return correct / count


@unrelated
def a_list_that_is_too_short():
    losses = [0.3, 0.2]
    return losses[5]


@unrelated
def a_name_that_is_not_known():
    x = torch.rand(3)
    return modle(x)  # noqa: F821


@unrelated
def an_attribute_that_is_not_there():
    class Basket:
        pass

    return Basket().sum()


@unrelated
def a_layer_with_a_slip_in_its_name():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(2, 2)

        def forward(self, x):
            return self.fcl(x)

    Net()(torch.rand(1, 2))


@unrelated
def a_function_with_too_many_arguments():
    def accuracy(outputs):
        return outputs.mean()

    accuracy(torch.rand(3), torch.rand(3))


@unrelated
def a_keyword_that_nobody_knows():
    def train(model, epochs):
        return model, epochs

    train(nn.Linear(1, 1), epoch=3)


@unrelated
def a_method_of_a_basket_in_a_loop():
    class Basket:
        def apples(self):
            return []

    for apple in Basket().apples:
        print(apple)


@unrelated
def two_names_for_one_value():
    width, height = [28]
    return width, height


@unrelated
def a_basket_by_its_number():
    class Basket:
        pass

    return Basket()[0]


@unrelated
def a_number_in_a_loop():
    for _ in 3:
        pass


@unrelated
def a_text_plus_a_number():
    return "epoch " + 3


@unrelated
def a_number_out_of_a_text():
    return int("3.5 %")


@unrelated
def a_function_that_calls_itself():
    def down(depth):
        return down(depth + 1)

    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(300)
        down(0)
    finally:
        sys.setrecursionlimit(limit)


@unrelated
def bytes_that_are_no_text():
    return b"\xff\xfe shape".decode("utf-8")


@unrelated
def an_iterator_that_is_at_its_end():
    next(iter([]))


@unrelated
def an_import_of_what_is_not_there():
    import torch_that_nobody_wrote  # noqa: F401


@unrelated
def a_name_of_torch_that_is_not_there():
    from torch.nn import Linaer  # noqa: F401


@unrelated
def a_lambda_that_cannot_be_pickled():
    return pickle.dumps(lambda x: x)


@unrelated
def a_pickle_that_is_broken():
    return pickle.loads(b"no pickle at all")


@unrelated
def a_copy_of_a_generator():
    copy.deepcopy(number for number in range(3))


@unrelated
def a_text_that_is_no_json():
    json.loads('{"lr": 0.1,}')


@unrelated
def an_object_that_is_no_json():
    json.dumps({"loss": torch.rand(2)})


@unrelated
def a_zip_that_is_none():
    import io

    zipfile.ZipFile(io.BytesIO(b"PK but not really"))


@unrelated
def a_section_of_a_configuration():
    configparser.ConfigParser()["training"]["lr"]


@unrelated
def bytes_of_another_length():
    struct.unpack("<2f", b"1234")


@unrelated
def a_decimal_that_is_none():
    decimal.Decimal("a third")


@unrelated
def a_program_that_ends_badly():
    subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=True)


@unrelated
def a_server_that_does_not_answer():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        socket.create_connection(server.getsockname(), timeout=0.2)


@unrelated
def a_queue_that_is_empty():
    queue.Queue().get_nowait()


@unrelated
def a_task_that_takes_too_long():
    asyncio.run(asyncio.wait_for(asyncio.sleep(5), timeout=0.01))


@unrelated
def a_mistake_in_a_program_text():
    compile("for x in loader print(x)", "<cell>", "exec")


@unrelated
def a_mistake_while_an_error_is_handled():
    try:
        torch.rand(2, 3) @ torch.rand(2, 3)
    except RuntimeError as error:
        print(eror)  # noqa: F821
        raise error


@unrelated
def a_warning_of_the_users_own():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.warn("Using a target size that we do not like: see the wiki", stacklevel=1)


# Other libraries


@unrelated
def arrays_of_other_shapes():
    return np.ones(3) + np.ones(4)


@unrelated
def a_product_of_arrays():
    return np.ones((3, 4)) @ np.ones((3, 4))


@unrelated
def an_array_that_is_too_short():
    return np.arange(3)[5]


@unrelated
def an_array_as_a_condition():
    if np.array([1, 0]):
        pass


@unrelated
def a_reshape_of_an_array():
    return np.arange(24).reshape(2, 10)


@unrelated
def a_join_of_arrays():
    return np.concatenate([np.ones((2, 3)), np.ones((2, 4))])


@unrelated
def a_key_in_the_manner_of_tables():
    class Frame:
        def __init__(self):
            self.columns = {"width": [1, 2]}

        def __getitem__(self, name):
            try:
                return self.columns[name]
            except KeyError as error:
                raise KeyError(name) from error

    return Frame()["depth"]


@unrelated
def one_row_for_a_classifier_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    LogisticRegression().fit([1.0, 2.0], [0, 1])


@unrelated
def rows_and_labels_of_other_lengths():
    from sklearn.linear_model import LinearRegression

    LinearRegression().fit(np.ones((4, 2)), np.ones(3))


@unrelated
def a_curve_of_other_lengths():
    from matplotlib.figure import Figure

    Figure().subplots().plot([1, 2, 3], [1, 2])


@unrelated
def a_file_that_is_no_picture(tmp="picture.png"):
    import io

    from PIL import Image

    Image.open(io.BytesIO(b"shape"))


# PyTorch's, of other kinds


@unrelated
def a_table_that_is_no_checkpoint():
    import io

    torch.load(io.BytesIO(b"epoch,loss\n1,0.5\n"))


@unrelated
def a_matrix_without_a_root():
    torch.linalg.cholesky(-torch.eye(3))


@unrelated
def a_matrix_without_an_inverse():
    torch.linalg.inv(torch.zeros(2, 2))


@unrelated
def a_device_with_a_wrong_name():
    torch.rand(2, device="gpu")


@unrelated
def a_learning_rate_below_zero():
    torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=-0.1)


@unrelated
def a_dropout_of_two():
    nn.Dropout(p=2)


@unrelated
def an_einsum_that_does_not_fit():
    torch.einsum("ij,jk->ik", torch.rand(2, 3), torch.rand(4, 5))


@unrelated
def a_range_that_goes_back():
    torch.arange(5, 0, 1)


@unrelated
def chances_below_zero():
    torch.multinomial(torch.tensor([-1.0, 2.0]), 1)


@unrelated
def a_keyword_that_a_layer_does_not_have():
    nn.Linear(2, 3, activation="relu")


@unrelated
def an_argument_that_a_layer_needs():
    nn.Conv2d(3, 8)


@unrelated
def a_method_that_tensors_do_not_have():
    torch.rand(2).to_list()


@unrelated
def groups_that_do_not_divide():
    nn.Conv2d(3, 8, 3, groups=2)


@unrelated
def a_seed_that_is_a_text():
    torch.manual_seed("zero")


@unrelated
def a_reduction_that_nobody_knows():
    nn.MSELoss(reduction="average")(torch.rand(2), torch.rand(2))


def raised_by(action: Callable[[], object]) -> BaseException:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            action()
    except BaseException as error:
        return error
    raise AssertionError(f"{action.__name__} did not fail")


@pytest.mark.parametrize("action", UNRELATED, ids=lambda action: action.__name__)
def test_an_unrelated_error_is_not_explained(action):
    error = raised_by(action)
    before = (str(error), error.__traceback__)
    assert explain_exception(error) is None
    assert (str(error), error.__traceback__) == before


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        SystemExit(1),
        GeneratorExit(),
        StopIteration(),
        StopAsyncIteration(),
        asyncio.CancelledError(),
        pytest.fail.Exception("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
        pytest.exit.Exception("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError(),
        ValueError(""),
        OSError(28, "No space left on device"),
        MemoryError(),
        UnicodeEncodeError("ascii", "ß", 0, 1, "ordinal not in range(128)"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_ends_or_leads_a_program_is_not_explained(error):
    def meet():
        values = torch.rand(2)
        del values
        raise error

    assert explain_exception(raised_by(meet)) is None
    assert explain_exception(error.with_traceback(None)) is None


def test_there_are_enough_of_them():
    assert len(UNRELATED) >= 40


def test_an_error_that_was_never_raised_has_no_line_and_no_explanation_that_invents_one():
    explanation = explain_exception(RuntimeError("mat1 and mat2 shapes cannot be multiplied (32x400 and 784x10)"))
    assert explanation is None or (explanation.code, explanation.operands) == ("", ())

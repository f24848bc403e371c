import pytest

from labkit import errors


def raising(error):
    raise error


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (lambda: raising(ValueError("first\nsecond")), "ValueError: first"),
        (
            lambda: raising(ValueError("Errors in loading:\n\tMissing key.\n\tMore.")),
            "ValueError: Errors in loading: Missing key.",
        ),
        (lambda: raising(KeyError()), "KeyError: "),
        (lambda: raising(errors.DataError("  a sentence.  ")), "DataError: a sentence."),
        (lambda: 1, "no error"),
    ],
)
def test_an_error_is_one_line(action, line):
    assert errors.error_of(action) == line


def test_ctrl_c_is_no_error_to_be_shown():
    with pytest.raises(KeyboardInterrupt):
        errors.error_of(lambda: raising(KeyboardInterrupt()))


def test_all_errors_of_labkit_can_be_caught_as_one():
    for name in ("ConfigError", "DataError", "DeviceError", "CheckpointError", "NonFiniteError"):
        assert issubclass(getattr(errors, name), errors.LabkitError)

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from labkit.exercises.results import Result, error_line, plain, say


def test_a_result_reads_well_without_markdown():
    result = Result("x", "right", "**Right.** 3 cases agree.")
    assert repr(result) == result.plain == "Right. 3 cases agree." and result.is_right


def test_without_a_notebook_the_plain_text_is_printed(capsys):
    say("**Right.** As `x`.")
    assert capsys.readouterr().out == "Right. As `x`.\n"


def test_powers_in_code_keep_their_stars():
    code = "    return (x - y) ** 2 + x ** 3"
    assert plain(f"**One solution.**\n\n{code}") == f"One solution.\n\n{code}"


def test_in_a_notebook_both_forms_are_shown():
    shell = InteractiveShell.instance()
    try:
        with capture_output() as captured:
            shell.run_cell("from labkit.exercises.results import say; say('**Right.**')")
        (output,) = captured.outputs
        assert output.data == {"text/markdown": "**Right.**", "text/plain": "Right."}
    finally:
        InteractiveShell.clear_instance()


def test_an_error_is_one_line():
    assert error_line(ValueError("first\nsecond")) == "ValueError: first"
    assert error_line(ValueError()) == "ValueError"
    assert error_line(ValueError("``` ends a block")) == "ValueError: ''' ends a block"
    assert len(error_line(ValueError("x" * 10**6))) < 600

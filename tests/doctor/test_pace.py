from labkit.doctor.pace import affordable, fastest


def test_what_is_short_is_repeated_as_often_as_wished():
    assert affordable(wished=40, fewest=6, once=0.001, seconds=2.0) == 40
    assert affordable(wished=40, fewest=6, once=0.1, seconds=2.0) == 20
    assert affordable(wished=40, fewest=6, once=60.0, seconds=2.0) == 6
    assert affordable(wished=40, fewest=6, once=0.0, seconds=2.0) == 40


def test_one_slow_moment_does_not_count():
    assert fastest([0.0, 5.0, 6.0, 9.0]) == 1.0
    assert fastest([3.0]) == fastest([]) == 0.0

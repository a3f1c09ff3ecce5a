"""Subjects as Go writes them; the tests of monitoring with TLS compare with nats-server."""

import pytest

from broker.wires.certificate_subject import escaped, subject_text


def test_given_types_that_go_knows_then_they_are_in_its_order_from_the_last_to_the_first() -> None:
    kinds = ("5", "3", "11", "10", "17", "9", "7", "8", "6")
    name = [(f"2.5.4.{kind}", kind) for kind in kinds]
    assert subject_text(name) == (
        "SERIALNUMBER=5,CN=3,OU=11,O=10,POSTALCODE=17,STREET=9,L=7,ST=8,C=6"
    )


def test_given_several_values_then_they_are_one_part_and_of_names_the_last_counts() -> None:
    name = [("2.5.4.11", "a"), ("2.5.4.3", "x"), ("2.5.4.11", "b"), ("2.5.4.3", "y")]
    assert subject_text(name) == "CN=y,OU=a+OU=b"
    assert subject_text([("2.5.4.3", "x"), ("2.5.4.3", "")]) == ""
    assert subject_text([]) == ""


def test_given_types_that_go_does_not_know_then_they_come_last_in_reverse() -> None:
    name = [("1.2", "a,b"), ("2.5.4.3", "x"), ("1.3", "c")]
    assert subject_text(name) == "CN=x,1.3=c,1.2=a\\,b"


@pytest.mark.parametrize(
    ("value", "text"),
    [("", ""), (" ", "\\ "), ("  ", "\\ \\ "), ("#", "\\#"), ("a#b c", "a#b c"), ("a;", "a\\;")],
)
def test_given_a_value_then_what_is_special_is_escaped(value: str, text: str) -> None:
    assert escaped(value) == text

"""Distinguished names: what nats-server's own tests say of them, and what a certificate has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wires.distinguished_name import of_subject, read_name

CN, ORG, OU, DC, UID = (
    *("2.5.4.3", "2.5.4.10", "2.5.4.11"),
    *("0.9.2342.19200300.100.1.25", "0.9.2342.19200300.100.1.1"),
)


@pytest.mark.parametrize(
    ("text", "rdns"),
    [
        ("", ()),
        (
            "cn=Jim\\2C \\22Hasse Hö\\22 Hansson!,dc=dummy,dc=com",
            (((CN, 'Jim, "Hasse Hö" Hansson!'),), ((DC, "dummy"),), ((DC, "com"),)),
        ),
        ("UID=jsmith,DC=example", (((UID, "jsmith"),), ((DC, "example"),))),
        ("OU=Sales+CN=J. Smith,DC=net", (((OU, "Sales"), (CN, "J. Smith")), ((DC, "net"),))),
        ("  CN  =  Lu\\C4\\8Di\\C4\\87  ", (((CN, "Lučić"),),)),
        ("   A   =   1   +   B   =   2   ", ((("A", "1"), ("B", "2")),)),
        ("OID.1.2=x", ((("1.2", "x"),),)),
        ("   \\ \\ A\\ \\    =   \\ \\ 1\\ \\    ", ((("  A  ", "  1  "),),)),
        ("CN=", (((CN, ""),),)),
        ("CN=a=b", (((CN, "a=b"),),)),
    ],
)
def test_given_a_text_then_its_parts_are_read(
    text: str, rdns: tuple[tuple[tuple[str, str], ...], ...]
) -> None:
    if rdns is None:
        return
    assert read_name(text).rdns == tuple(tuple(sorted(part)) for part in rdns)


@pytest.mark.parametrize(
    "text",
    [
        *("*", "cn=Jim\\0Test", "cn=Jim\\0", "cn=Jim\\", "DC=example,=net", "test,DC=com"),
        *("=test,DC=com", "1=#0402486", "CN=a,", "CN=a+", ",", "+"),
    ],
)
def test_given_input_that_is_no_name_then_it_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_name(text)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("o=A", "O=A", True),
        ("o=A", "o=B", False),
        ("o=a", "o=A", False),
        ("o=A,o=B", "O=A, O=B", True),
        ("o=A,o=B", "o=B,o=A", False),
        ("o=A+o=B", "O=B+o=A", True),
        ("o=A+o=B", "O=B+o=A+O=B", False),
        ("o=A+o=B", "o=A,o=B", False),
        ("cn=John Doe, ou=People", "cn=John Doe,ou=People", True),
        ("cn=John Doe, ou=People", "cn=John  Doe,ou=People", False),
    ],
)
def test_given_two_names_then_parts_are_compared_in_order_and_values_in_one_part_are_not(
    one: str, other: str, equal: bool
) -> None:
    assert (read_name(one) == read_name(other)) == equal


def test_given_another_order_of_the_parts_then_only_the_names_without_order_are_equal() -> None:
    one, other = read_name("DC=org,O=users+DC=DEV,CN=x"), read_name("CN=x,DC=DEV+O=users,DC=org")
    assert one != other
    assert one.parts == other.parts
    assert read_name("CN=x,CN=x").parts != read_name("CN=x").parts


names = st.lists(
    st.lists(st.tuples(st.sampled_from([CN, ORG, DC, "1.2.3"]), st.text(max_size=6)), min_size=1),
    max_size=4,
)


@given(names)
def test_given_any_subject_then_its_text_is_read_as_the_same_name(
    subject: list[list[tuple[str, str]]],
) -> None:
    subject = [[(kind, value) for kind, value in part if value] for part in subject]
    name = of_subject([part for part in subject if part])
    assert read_name(str(name)) == name


@given(st.text(max_size=30) | st.text(alphabet="\\,+=# CNa01", max_size=30))
def test_given_any_text_then_it_is_read_or_refused(text: str) -> None:
    try:
        name = read_name(text)
    except ValueError:
        return
    assert all(kind for part in name.rdns for kind, _ in part)

"""The tree of known blocks: paths, descendants, and the lowest number."""

from cardinal.tree import Tree
from tests.cardinal.stream import block, named


def tree(*edges: str) -> Tree:
    """Edges as "child<parent:weight", numbered in their order."""
    made = Tree()
    for number, edge in enumerate(edges):
        child, rest = edge.split("<")
        parent, weight = rest.split(":")
        made.add(block(child, number, parent, int(weight)))
    return made


def names(path: list[bytes]) -> str:
    return "".join(hash.decode().lstrip(".") for hash in path)


def test_given_branches_when_the_heaviest_is_asked_for_then_the_path_goes_over_it() -> None:
    made = tree("a<r:1", "b<a:2", "c<a:2", "d<c:3", "e<b:9", "f<e:1", "g<e:2")
    weight, path = made.heaviest(named("a"))
    assert (weight, names(path)) == (9, "abeg")


def test_given_equal_branches_then_the_chain_wins_and_else_the_first() -> None:
    made = tree("a<r:1", "b<a:2", "c<a:2")
    assert names(made.heaviest(named("r"))[1]) == "rab"
    assert names(made.heaviest(named("r"), {named("c")})[1]) == "rac"


def test_given_a_hash_without_a_block_when_linked_then_all_on_it_is() -> None:
    made = tree("b<a:1", "c<b:1", "x<y:1")
    made.link(named("a"))
    assert made.linked == {named("a"), named("b"), named("c")}
    made.remove(named("b"))
    assert named("b") not in made.linked
    assert named("a") not in made.children


def test_given_blocks_that_come_and_go_then_the_lowest_is_known_and_nothing_piles_up() -> None:
    made = Tree()
    assert made.lowest() is None
    for number in range(1000):
        made.add(block(str(number), 5000 - number, "p"))
        if number:
            made.remove(named(str(number - 1)))
    assert made.lowest() == block("999", 4001, "p")
    assert len(made._by_number._heap) < 100

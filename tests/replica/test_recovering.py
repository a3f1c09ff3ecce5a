"""`cluster recover` makes a view without some members: what these have more is not thrown away."""

import pytest

from tests.replica.checker import Breach
from tests.replica.scripts import Scripted


def test_given_a_member_that_was_not_counted_when_it_has_more_then_it_stops_at_each_start() -> None:
    run = Scripted(1)
    run.run(500)
    late = run.leader()
    others = run.others(late)
    run.isolate(late, [node.name for node in others])
    run.publish_at(late, range(90, 96))
    run.run(600)  # it writes on
    last = late.disk.log.last
    run.crash(late, False)
    chosen = others[0].member
    assert chosen is not None
    assert last > chosen.log.last
    for node in others:
        assert node.member is not None
        node.member.is_counted = True
    engine = run.engine
    view = engine.view._replace(
        epoch=engine.view.epoch + 1,
        coordinator=chosen.id,
        run=0,
        members=(chosen.id,),
        stream=engine.view.stream + 1,
    )
    assert engine.swap(engine.revision, view)
    run.run(2500)
    for node in others:
        run.join(node, late.name)
        assert node.disk.memory.stream == view.stream

    for _ in range(2):
        run.start(late)
        with pytest.raises(Breach, match=f"up to number {last}, .* recovered without it"):
            run.run(run.now + 1500)
        assert late.disk.log.last == last
        run.crash(late, False)

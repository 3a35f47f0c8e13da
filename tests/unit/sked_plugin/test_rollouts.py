"""How a rollout stands, when it is over, with which exit code, and what is said of it."""

from typing import Any

import pytest

from schedkit.errors import ExitCode
from schedkit.sked.plugin.rollout_text import describe_end, describe_progress, render_list, render_progress
from schedkit.sked.plugin.rollouts import read_progress
from tests.unit.sked_plugin.making import MOMENT, condition, failed_with, make_rollout, make_schedext

READY = condition("Ready", "True", "Ready", "4 of 4 nodes are attached")


@pytest.mark.parametrize(
    ("rollout", "state", "over", "code"),
    [
        (make_rollout("Progressing"), "Progressing", False, ExitCode.OK),
        (make_rollout("Paused"), "Paused", False, ExitCode.OK),
        (make_rollout("Paused", failedRevision=failed_with("Ejected")), "Failed", True, ExitCode.EJECTED),
        (
            make_rollout("Paused", failedRevision=failed_with("NotAttachedInTime")),
            "Failed",
            True,
            ExitCode.NOT_ATTACHED,
        ),
        (make_rollout("Paused", failedRevision=failed_with("Ejected", "web-old")), "Paused", False, ExitCode.OK),
        (make_rollout("RollingBack", failedRevision=failed_with("Ejected")), "RollingBack", False, 15),
        (make_rollout("RolledBack", failedRevision=failed_with("Ejected")), "RolledBack", True, 15),
        (make_rollout("Complete"), "Complete", True, ExitCode.OK),
    ],
)
def test_rollout_is_over_when_only_a_person_can_change_it(
    rollout: dict[str, Any], state: str, over: bool, code: int
) -> None:
    progress = read_progress(make_schedext(rollout))
    assert (progress.state, progress.is_over, progress.exit_code) == (state, over, code)


def test_status_of_an_older_spec_says_nothing_of_the_newest() -> None:
    progress = read_progress(make_schedext(make_rollout("Complete"), generation=2))
    assert (progress.state, progress.is_over) == ("Waiting", False)


def test_rollout_before_says_nothing_of_an_image_that_is_not_verified() -> None:
    complete, verifying = make_rollout("Complete"), condition("Progressing", "True", "Verifying", "is being verified")
    progress = read_progress(make_schedext(complete, conditions=(verifying,)))
    assert (progress.state, progress.is_over) == ("Progressing", False)
    refused = condition("Stalled", "True", "Unsigned", "nobody signed it")
    progress = read_progress(make_schedext(complete, conditions=(refused,)))
    assert (progress.state, progress.is_over) == ("Failed", True)
    assert progress.exit_code != ExitCode.OK


def test_rollout_that_the_operator_has_not_begun_is_waited_for() -> None:
    progress = read_progress(make_schedext(rollout={}))
    assert (progress.state, progress.is_over) == ("Waiting", False)


def test_request_that_is_not_carried_out_keeps_a_rollout_from_being_over() -> None:
    asked = {"sked.schedkit.io/retry": "now"}
    rolled_back = make_rollout("RolledBack", failedRevision=failed_with("Ejected"))
    progress = read_progress(make_schedext(rolled_back, annotations=asked))
    assert (progress.pending, progress.is_over) == (("retry",), False)
    handled = read_progress(make_schedext(rolled_back | {"handled": {"retry": "now"}}, annotations=asked))
    assert (handled.pending, handled.is_over) == ((), True)


def test_long_request_is_compared_as_far_as_it_is_kept() -> None:
    rollout = make_rollout("Complete", handled={"promote": "x" * 128})
    assert read_progress(make_schedext(rollout, annotations={"sked.schedkit.io/promote": "x" * 200})).pending == ()


def test_worst_pool_counts_and_all_are_waited_for() -> None:
    rolled_back = make_rollout("RolledBack", failedRevision=failed_with("Ejected"))
    both = read_progress(make_schedext(rolled_back, make_rollout("Progressing"), pools=("large", "small")))
    assert (both.state, both.is_over) == ("RolledBack", False)
    ended = read_progress(make_schedext(rolled_back, make_rollout("Complete"), pools=("large", "small")))
    assert (ended.is_over, ended.exit_code) == (True, 15)


@pytest.mark.parametrize(
    ("conditions", "state", "code"),
    [
        ([READY, condition("Stalled", "False")], "Complete", 0),
        ([condition("Ready", "False"), condition("Stalled", "False")], "Progressing", 0),
        ([condition("Ready", "False"), condition("Stalled", "True")], "Failed", 1),
    ],
)
def test_resource_without_a_rollout_stands_as_its_conditions_say(
    conditions: list[dict[str, Any]], state: str, code: int
) -> None:
    progress = read_progress(make_schedext(status={"conditions": conditions}))
    assert (progress.state, progress.exit_code) == (state, code)


def test_suspended_resource_is_done_when_it_says_so() -> None:
    suspended = condition("Ready", "True", "Suspended", "suspended: no scheduler is run")
    progress = read_progress(make_schedext(status={"conditions": [suspended], "pools": []}, suspend=True))
    assert (progress.state, progress.is_over, progress.pools) == ("Complete", True, ())


def test_rollback_tells_which_node_what_the_kernel_said_and_what_to_do() -> None:
    rollout = make_rollout("RolledBack", step=1, message="all nodes run the stable revision")
    text = render_progress(read_progress(make_schedext(rollout | {"failedRevision": failed_with("Ejected")})), MOMENT)
    assert text.splitlines() == [
        "default/web: Progressing, 2 of 4 pods are ready",
        "  RolledBack for 2m, step 2/3 [##########..........] 2/4 nodes updated, 1 of them attached",
        "  all nodes run the stable revision",
        "  revision web-aaaaaaaaaa → web-bbbbbbbbbb, example.com/scx_rusty:1",
        "  revision web-bbbbbbbbbb failed on node-3: Ejected: runnable task stall",
        "  change the spec, or `kubectl scx retry web -n default` tries it again",
    ]


@pytest.mark.parametrize(
    ("spec", "rollout", "advice"),
    [
        ({}, make_rollout("Paused"), "`kubectl scx promote web -n default` continues at once"),
        ({"paused": True}, make_rollout("Paused"), "it is paused by spec.paused: `kubectl scx resume web"),
        ({}, make_rollout("Paused", failedRevision=failed_with("Ejected")), "change the spec, or `kubectl scx retry"),
    ],
)
def test_what_waits_for_a_person_says_for_what(spec: dict[str, Any], rollout: dict[str, Any], advice: str) -> None:
    assert advice in render_progress(read_progress(make_schedext(rollout, **spec)), MOMENT)


def test_end_of_a_rollout_is_one_line_with_the_gap() -> None:
    done = make_rollout("Complete", gap={"medianMilliseconds": 850, "worstMilliseconds": 1900})
    assert describe_end(read_progress(make_schedext(done))) == (
        "web is done: 2 nodes run web-bbbbbbbbbb, gap 850 ms, worst 1.9 s"
    )
    failed = make_rollout("RolledBack", failedRevision=failed_with("Ejected"))
    assert describe_end(read_progress(make_schedext(failed))) == (
        "web was rolled back: revision web-bbbbbbbbbb failed on node-3: Ejected: runnable task stall"
    )


def test_list_has_a_line_for_each_pool() -> None:
    pools = make_schedext(make_rollout("Progressing", step=3), make_rollout("Complete"), pools=("large", "small"))
    text = render_list([read_progress(pools), read_progress(make_schedext(name="plain"))], MOMENT, everywhere=True)
    assert [line.split() for line in text.splitlines()] == [
        ["NAMESPACE", "NAME", "ROLLOUT", "SINCE", "STEP", "UPDATED", "ATTACHED", "FAILED", "GAP", "STATUS"],
        ["default", "plain", "-", "-", "-", "4/4", "4/4", "0", "-", "Progressing"],
        ["default", "web", "(large)", "Progressing", "2m", "all", "nodes", "2/4", "4/4", "0", "-", "Progressing"],
        ["default", "web", "(small)", "Complete", "2m", "1/3", "2/4", "4/4", "0", "-", "Progressing"],
    ]


def test_node_in_quarantine_for_the_new_revision_has_failed_once() -> None:
    nodes = {"updated": 2, "attached": 1, "failed": 1, "quarantined": 1}
    told = read_progress(make_schedext(make_rollout("Progressing", nodes=nodes)))
    titles, row = (line.split() for line in render_list([told], MOMENT, everywhere=False).splitlines())
    assert row[titles.index("FAILED")] == "1"


def test_bar_is_empty_where_no_node_is_known() -> None:
    (pool,) = read_progress(make_schedext(rollout={}, status={"pools": []})).pools
    assert describe_progress(pool, None) == (
        f"Waiting for the operator to see the newest spec [{'.' * 20}] 0/0 nodes updated"
    )

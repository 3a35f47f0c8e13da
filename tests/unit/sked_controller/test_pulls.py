"""Pods that bring an image to a node: what became of one, from its status alone."""

from typing import Any

import pytest

from schedkit.sked.controller.pulls import judge_pull
from tests.unit.sked_controller.making import make_pod

FAULT = 'failed to pull and unpack image "example.com/a:1": not found'
REFUSED = {"state": {"waiting": {"reason": "ErrImagePull", "message": FAULT}}}
ENDED = {"state": {"terminated": {"exitCode": 2, "reason": "Error"}}}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "containerStatuses": [ENDED]},
        {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]},
        {"phase": "Failed", "reason": "DeadlineExceeded", "containerStatuses": [ENDED]},
        {"phase": "Failed", "reason": "OutOfpods", "message": "Node didn't have enough resource: pods"},
    ],
)
def test_image_that_was_started_or_whose_pod_has_no_room_is_not_waited_for(status: dict[str, Any]) -> None:
    assert judge_pull(make_pod(**status)) is None


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, ""),
        ({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        ({"phase": "Pending", "containerStatuses": [REFUSED]}, FAULT),
        (
            {"phase": "Failed", "reason": "DeadlineExceeded", "message": "too long", "containerStatuses": [REFUSED]},
            FAULT,
        ),
        ({"phase": "Failed", "reason": "DeadlineExceeded", "message": "active too long"}, "active too long"),
    ],
)
def test_image_that_is_not_there_yet_is_waited_for_and_the_fault_is_told(status: dict[str, Any], told: str) -> None:
    assert judge_pull(make_pod(**status)) == told

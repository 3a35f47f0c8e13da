"""WWW-Authenticate in all the ways that servers write it."""

import pytest

from schedkit.images.challenge import Challenge, parse_challenges


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", []),
        ("Basic", [Challenge("basic", {})]),
        ('Basic realm="a, b"', [Challenge("basic", {"realm": "a, b"})]),
        (
            'Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push"',
            [
                Challenge(
                    "bearer",
                    {
                        "realm": "https://auth.example/token",
                        "service": "registry.example",
                        "scope": "repository:a/b:pull,push",
                    },
                )
            ],
        ),
        ("BEARER Realm=https://auth.example/token", [Challenge("bearer", {"realm": "https://auth.example/token"})]),
        (
            'Basic realm="x", Bearer realm="y" , service="z"',
            [Challenge("basic", {"realm": "x"}), Challenge("bearer", {"realm": "y", "service": "z"})],
        ),
        (r'Basic realm="say \"hi\""', [Challenge("basic", {"realm": 'say "hi"'})]),
        ('Bearer realm="never closed', [Challenge("bearer", {})]),
    ],
)
def test_challenges_are_read(header: str, expected: list[Challenge]) -> None:
    assert parse_challenges(header) == expected


@pytest.mark.parametrize(
    "header", ['Bearer realm="' + "\\" * 100_000, "a=" * 50_000, "," * 100_000, "Bearer " * 20_000]
)
def test_a_header_made_to_be_slow_is_read_all_the_same(header: str) -> None:
    assert len(parse_challenges(header)) <= 8192

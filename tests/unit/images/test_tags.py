"""The order in which versions are shown."""

from schedkit.images.tags import sort_tags

ORDERED = [
    "latest",
    "v10.0.0",
    "2.0.0",
    "v2.0.0",
    "v2.0.0-rc.10",
    "v2.0.0-rc.2",
    "v2.0.0-beta",
    "v2.0.0-alpha.beta",
    "v2.0.0-alpha.1",
    "v2.0.0-alpha",
    "v2.0.0-1",
    "v1.10",
    "v1.9.3.1",
    "v1.9.3",
    "1.1.4",
    "v1",
    "0.1",
    "edge",
    "main",
    "sha256-abc",
    "version-3",
]


def test_latest_comes_first_then_versions_newest_first_then_the_rest() -> None:
    assert sort_tags(sorted(ORDERED)) == ORDERED
    assert sort_tags(reversed(ORDERED)) == ORDERED


def test_signatures_and_lists_of_referrers_are_not_versions() -> None:
    digest = "sha256-" + "ab" * 32
    others = [digest, f"{digest}.sig", f"{digest}.att", f"{digest}.sbom", f"sha512-{'ab' * 64}"]
    assert sort_tags([*others, "v1"]) == ["v1"]


def test_a_tag_listed_twice_is_one() -> None:
    assert sort_tags(["v1", "v1", "latest", "latest"]) == ["latest", "v1"]

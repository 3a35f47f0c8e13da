"""Lines out of a stream, structs out of lines."""

import pytest

from schedkit.sked.kube.decoding import LineSplitter, Page, decode
from schedkit.sked.kube.errors import UnexpectedAnswerError
from schedkit.sked.kube.objects import Object


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_whole_however_the_bytes_arrive(size: int) -> None:
    text = b'{"a":1}\n\n{"b":"' + b"x" * 40 + b'"}\n{"c":3}\ntorn'
    splitter = LineSplitter()
    lines = [line for at in range(0, len(text), size) for line in splitter.feed(text[at : at + size])]
    assert lines == [b'{"a":1}', b'{"b":"' + b"x" * 40 + b'"}', b'{"c":3}']


def test_line_of_many_chunks_is_put_together() -> None:
    splitter = LineSplitter()
    assert not any(list(splitter.feed(b"y" * 65536)) for _ in range(64))
    assert [len(line) for line in splitter.feed(b"\n")] == [64 * 65536]


def test_line_without_an_end_is_given_up() -> None:
    splitter = LineSplitter(longest=10)
    with pytest.raises(UnexpectedAnswerError, match="more than 10 bytes"):
        list(splitter.feed(b"x" * 11))


def test_what_is_not_an_object_is_said_so() -> None:
    for body in (b"", b"<html>", b'{"metadata":{"name":7}}', b"\xff\xfe"):
        with pytest.raises(UnexpectedAnswerError, match="not the expected Object"):
            decode(body, Object)


def test_list_of_nothing_may_be_null() -> None:
    assert decode(b'{"metadata":{"resourceVersion":"5"},"items":null}', Page).items is None

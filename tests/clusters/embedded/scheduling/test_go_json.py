from __future__ import annotations

import pytest

from clusters.embedded.scheduling.go_json import AnswerError
from clusters.embedded.scheduling.scheduler_messages import decode_bind


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "EOF"),
        (b'{"Error":', "unexpected EOF"),
        (b'{"Error":"', "unexpected EOF"),
        (b"<html>", "invalid character '<' looking for beginning of value"),
        (b"not JSON", "invalid character 'o' in literal null (expecting 'u')"),
        (b"nul", "unexpected EOF"),
        (b"{'Error'", "invalid character '\\'' looking for beginning of object key string"),
        (b'{"Error" 1', "invalid character '1' after object key"),
        (b'{"Error":1 1', "invalid character '1' after object key:value pair"),
        (b'{"NodeNames":["]" 1', "invalid character '1' after array element"),
        (b"7", "json: cannot unmarshal number into Go value of type v1.ExtenderBindingResult"),
        (
            b'{"Error":true}',
            "json: cannot unmarshal bool into Go struct field ExtenderBindingResult.Error of type string",
        ),
    ],
)
def test_errors_are_in_the_words_of_go(body: bytes, text: str) -> None:
    """They end in the pod's events."""
    with pytest.raises(AnswerError) as caught:
        decode_bind(body)

    assert text == str(caught.value)

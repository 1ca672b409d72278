"""Z85 text, as deletion vectors use it: four bytes become five printable characters.

The alphabet is that of ZeroMQ's RFC 32. Text whose length is no multiple of five, or that holds a
character outside the alphabet, is refused; bytes whose length is no multiple of four are padded
with zeros by the caller's choice, since a deletion vector carries its own size.
"""

from __future__ import annotations

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUE = {c: i for i, c in enumerate(ALPHABET)}
_MAX = 0xFFFFFFFF


def encode(data: bytes) -> str:
    """The text of ``data``, whose length must be a multiple of four."""
    if len(data) % 4:
        raise ValueError(f"Z85 encodes multiples of four bytes, not {len(data)}")
    out: list[str] = []
    for at in range(0, len(data), 4):
        word = int.from_bytes(data[at : at + 4], "big")
        chars = []
        for _ in range(5):
            word, digit = divmod(word, 85)
            chars.append(ALPHABET[digit])
        out.extend(reversed(chars))
    return "".join(out)


def decode(text: str) -> bytes:
    """The bytes of ``text``; ``ValueError`` says what is wrong with it."""
    if len(text) % 5:
        raise ValueError(f"Z85 text has a multiple of five characters, not {len(text)}")
    out = bytearray()
    for at in range(0, len(text), 5):
        word = 0
        for c in text[at : at + 5]:
            digit = _VALUE.get(c)
            if digit is None:
                raise ValueError(f"{c!r} is no character of Z85")
            word = word * 85 + digit
        if word > _MAX:
            raise ValueError(f"{text[at : at + 5]!r} stands for more than four bytes")
        out += word.to_bytes(4, "big")
    return bytes(out)

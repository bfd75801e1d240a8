"""The table of string functions. Positions count from 1, characters are code points."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib

from everview.algebra.numbers import wrap
from everview.algebra.signatures import Signature as Row
from everview.algebra.signatures import first_type
from everview.algebra.text_patterns import ilike, like, parse_replacement, regex

_MOST = 2**31 - 1

LONGEST_TEXT = 2**20
"""How many characters repeat, space, lpad and rpad yield at most: one odd number must not fill the memory."""

LONGEST_SEARCHED = 2**16
"""How many characters a pattern with a group may search: Java needs a stack as deep for (a|b)*."""


def substring(text: str | bytes, position: int, length: int = _MOST) -> str | bytes:
    """Return so many characters from a position on; 0 counts as 1, a negative one from the end.

    >>> substring("hello", 2, 3), substring("hello", -2), substring("hello", -7, 3), substring("hello", 0, 2)
    ('ell', 'lo', 'h', 'he')
    """
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(0, start) : max(0, start + max(0, length))]


def substring_index(text: str, delimiter: str, count: int) -> str:
    """Return the text before the count-th delimiter, or after it if the count is negative.

    >>> substring_index("www.a.b", ".", 2), substring_index("www.a.b", ".", -1)
    ('www.a', 'b')
    """
    if not delimiter or count == 0:
        return ""
    found, at = [], text.find(delimiter)
    while at >= 0:  # occurrences may overlap
        found.append(at)
        at = text.find(delimiter, at + 1)
    if count > 0:
        return text[: found[count - 1]] if count <= len(found) else text
    return text[found[count] + len(delimiter) :] if -count <= len(found) else text


def locate(part: str | None, text: str | None, position: int | None = 1) -> int | None:
    """Return where the part begins at or after a position, 0 if nowhere; a NULL position gives 0.

    >>> locate("b", "abcb"), locate("b", "abcb", 3), locate("x", "abc"), locate("b", "abc", None)
    (2, 4, 0, 0)
    """
    if position is None:
        return 0
    if part is None or text is None:
        return None
    if position < 1:
        return 0
    return text.find(part, position - 1) + 1 if part else 1


def pad(text: str, length: int, filler: str, left: bool) -> str | None:
    """Return the text padded, or cut, to a length; NULL above LONGEST_TEXT.

    >>> pad("7", 3, "0", left=True), pad("abc", 2, " ", left=False), pad("a", 4, "xy", left=False)
    ('007', 'ab', 'axyx')
    """
    if length > LONGEST_TEXT:
        return None
    missing = length - len(text)
    if missing <= 0 or not filler:
        return text[: max(0, length)]
    filling = (filler * (missing // len(filler) + 1))[:missing]
    return filling + text if left else text + filling


def repeat(text: str, count: int) -> str | None:
    """Return the text so many times; NULL if that would be longer than LONGEST_TEXT.

    >>> repeat("ab", 2), repeat("ab", -1), repeat("ab", 2**31 - 1)
    ('abab', '', None)
    """
    return text * max(0, count) if len(text) * count <= LONGEST_TEXT else None


def initcap(text: str) -> str:
    """Return the text with the first letter of every word in upper case; words are separated by blanks.

    >>> initcap("hELLO foo-bar")
    'Hello Foo-bar'
    """
    # The whole word is lowered first: the lower case of Σ depends on its neighbours.
    return " ".join(w[:1].title() + w.lower()[len(w[:1].lower()) :] for w in text.split(" "))


def split_part(text: str, delimiter: str, number: int) -> str | None:
    """Return the part of this number, from the end if negative; '' beyond the last, NULL for part 0.

    >>> split_part("a.b.c", ".", 2), split_part("a.b.c", ".", -1), split_part("a.b.c", ".", 9)
    ('b', 'c', '')
    """
    if number == 0:
        return None
    parts = text.split(delimiter) if delimiter else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def translate(text: str, characters: str, replacements: str) -> str:
    """Return each of the characters replaced by its counterpart, or dropped where there is none.

    >>> translate("abcb", "abc", "xy")
    'xyy'
    """
    table: dict[int, str | None] = {}
    for i, character in enumerate(characters):
        table.setdefault(ord(character), replacements[i] if i < len(replacements) else None)
    return text.translate(table)


def overlay(text: str, part: str, position: int, length: int = -1) -> str:
    """Return the text with the part written over it at a position.

    >>> overlay("Spark SQL", "_", 6), overlay("abc", "xyz", 2, 0)
    ('Spark_SQL', 'axyzbc')
    """
    covered = length if length >= 0 else len(part)
    return text[: max(0, position - 1)] + part + str(substring(text, position + covered, 2 * _MOST))


def levenshtein(a: str, b: str) -> int:
    """Return how many characters must be inserted, removed or replaced to turn one text into the other.

    >>> levenshtein("kitten", "sitting")
    3
    """
    distances = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, distances[0] = distances[0], i
        for j, y in enumerate(b, 1):
            previous, distances[j] = (
                distances[j],
                min(distances[j] + 1, distances[j - 1] + 1, previous + (x != y)),
            )
    return distances[-1]


def sha2(data: bytes, bits: int) -> str | None:
    """Return the SHA-2 digest of so many bits (0 is 256), in hex.

    >>> (sha2(b"a", 256) or "")[:8], sha2(b"a", 1)
    ('ca978112', None)
    """
    names = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
    return hashlib.new(names[bits], data).hexdigest() if bits in names else None


def character(number: int) -> str:
    """Return the Latin-1 character of this number, of which the lowest eight bits count.

    >>> character(65), character(-1)
    ('A', '')
    """
    return "" if number < 0 else chr(number % 256)


def base64_lines(data: bytes) -> str:
    """Return Base64 in lines of 76 characters.

    >>> base64_lines(b"everview"), base64_lines(bytes(60))[74:80]
    ('ZXZlcnZpZXc=', 'AA\\r\\nAA')
    """
    text = base64.b64encode(data).decode()
    return "\r\n".join(text[i : i + 76] for i in range(0, len(text), 76))


def find_in_set(part: str, list_: str) -> int:
    """Return the position of the part in a comma-separated list, 0 if it is not there.

    >>> find_in_set("ab", "abc,b,ab"), find_in_set("a,b", "a,b")
    (3, 0)
    """
    items = list_.split(",")
    return 0 if "," in part or part not in items else items.index(part) + 1


def concat_ws(separator: str | None, *parts: str | None) -> str | None:
    """Return the parts that are not NULL, with a separator between them.

    >>> concat_ws("-", "a", None, "b"), concat_ws(None, "a")
    ('a-b', None)
    """
    return None if separator is None else separator.join(p for p in parts if p is not None)


def _regex_for(text: str, pattern: str) -> re.Pattern[str] | None:
    """Return the compiled pattern; None if it is invalid, or if the text is too long for it."""
    return None if "(" in pattern and len(text) > LONGEST_SEARCHED else regex(pattern)


def rlike(text: str, pattern: str) -> bool | None:
    """Return whether a part of the text matches; NULL if the pattern is invalid or the text too long for it.

    >>> rlike("abc", "b"), rlike("abc", "("), rlike("a" * 70_000, "(a|b)*"), rlike("a" * 70_000, "b")
    (True, None, None, False)
    """
    compiled = _regex_for(text, pattern)
    return None if compiled is None else compiled.search(text) is not None


def regexp_extract(text: str, pattern: str, group: int = 1) -> str | None:
    """Return a group of the first match, '' if nothing matches; NULL if there is no such group.

    >>> regexp_extract("100-200", r"(\\d+)-(\\d+)", 2), regexp_extract("x", r"(\\d+)")
    ('200', '')
    """
    compiled = _regex_for(text, pattern)
    if compiled is None:
        return None
    match = compiled.search(text)
    if match is None:
        return ""
    return match[group] or "" if 0 <= group <= compiled.groups else None


def regexp_replace(text: str, pattern: str, by: str) -> str | None:
    """Return the text with every match replaced; NULL if the pattern or the replacement is invalid.

    >>> regexp_replace("ab", "(a)(b)", "$2$1"), regexp_replace("ab", "a", "$7")
    ('ba', None)
    """
    compiled = _regex_for(text, pattern)
    if compiled is None:
        return None
    parts = parse_replacement(by, compiled.groups)
    if parts is None:
        return None if compiled.search(text) else text
    return compiled.sub(lambda m: "".join(p if isinstance(p, str) else m[p] or "" for p in parts), text)


def regexp_count(text: str, pattern: str) -> int | None:
    """Return how many matches there are; NULL if the pattern is invalid.

    >>> regexp_count("abab", "b"), regexp_count("abab", "[")
    (2, None)
    """
    compiled = _regex_for(text, pattern)
    return None if compiled is None else sum(1 for _ in compiled.finditer(text))


TEXT_FUNCTIONS = (
    Row("upper", "STRING", "STRING", str.upper, ("ucase",)),
    Row("lower", "STRING", "STRING", str.lower, ("lcase",)),
    Row("initcap", "STRING", "STRING", initcap),
    Row("trim", "STRING", "STRING", lambda s: s.strip(" ")),
    Row("ltrim", "STRING", "STRING", lambda s: s.lstrip(" ")),
    Row("rtrim", "STRING", "STRING", lambda s: s.rstrip(" ")),
    # With two arguments the characters to trim come first, as in Spark; only btrim has the text first.
    Row("trim", "STRING, STRING", "STRING", lambda characters, s: s.strip(characters)),
    Row("ltrim", "STRING, STRING", "STRING", lambda characters, s: s.lstrip(characters)),
    Row("rtrim", "STRING, STRING", "STRING", lambda characters, s: s.rstrip(characters)),
    Row(
        "btrim",
        "STRING[, STRING]",
        "STRING",
        lambda s, characters=" ": s.strip(characters),
    ),
    Row("length", "TEXT", "INT", len, ("char_length", "character_length", "len")),
    Row("length", "BINARY", "INT", len),
    Row("octet_length", "TEXT", "INT", lambda s: len(s.encode())),
    Row("octet_length", "BINARY", "INT", len),
    Row("bit_length", "TEXT", "INT", lambda s: 8 * len(s.encode())),
    Row("bit_length", "BINARY", "INT", lambda b: 8 * len(b)),
    Row("substring", "STRING, INT[, INT]", first_type, substring, ("substr",)),
    Row("substring", "BINARY, INT[, INT]", first_type, substring),
    Row("substring_index", "STRING, STRING, INT", "STRING", substring_index),
    Row("left", "STRING, INT", "STRING", lambda s, n: s[: max(0, n)]),
    Row("right", "STRING, INT", "STRING", lambda s, n: s[-n:] if n > 0 else ""),
    Row("concat", "TEXT...", "STRING", lambda *parts: "".join(parts)),
    Row("concat_ws", "STRING, TEXT...", "STRING", concat_ws, strict=False),
    Row(
        "replace",
        "STRING, STRING[, STRING]",
        "STRING",
        lambda s, old, new="": s.replace(old, new) if old else s,
    ),
    Row("translate", "STRING, STRING, STRING", "STRING", translate),
    Row("overlay", "STRING, STRING, INT[, INT]", "STRING", overlay),
    Row("instr", "STRING, STRING", "INT", lambda s, part: s.find(part) + 1),
    Row("locate", "STRING, STRING[, INT]", "INT", locate, ("position",), strict=False),
    Row("lpad", "STRING, INT[, STRING]", "STRING", lambda s, n, filler=" ": pad(s, n, filler, left=True)),
    Row("rpad", "STRING, INT[, STRING]", "STRING", lambda s, n, filler=" ": pad(s, n, filler, left=False)),
    Row("repeat", "STRING, INT", "STRING", repeat),
    Row("space", "INT", "STRING", lambda n: repeat(" ", n)),
    Row("reverse", "STRING", "STRING", lambda s: s[::-1]),
    Row("startswith", "STRING, STRING", "BOOLEAN", str.startswith),
    Row("endswith", "STRING, STRING", "BOOLEAN", str.endswith),
    Row("contains", "STRING, STRING", "BOOLEAN", lambda s, part: part in s),
    Row("like", "STRING, STRING[, STRING]", "BOOLEAN", like, constant=2),
    Row("ilike", "STRING, STRING[, STRING]", "BOOLEAN", ilike, constant=2),
    Row("rlike", "STRING, STRING", "BOOLEAN", rlike, ("regexp_like", "regexp")),
    Row("regexp_replace", "STRING, STRING, STRING", "STRING", regexp_replace),
    Row("regexp_extract", "STRING, STRING[, INT]", "STRING", regexp_extract),
    Row("regexp_count", "STRING, STRING", "INT", regexp_count),
    Row("split_part", "STRING, STRING, INT", "STRING", split_part),
    Row("find_in_set", "STRING, STRING", "INT", find_in_set),
    Row("levenshtein", "STRING, STRING", "INT", levenshtein),
    Row("ascii", "STRING", "INT", lambda s: ord(s[0]) if s else 0),
    Row("chr", "BIGINT", "STRING", character, ("char",)),
    Row("hex", "BIGINT", "STRING", lambda n: f"{n % 2**64:X}"),
    Row("hex", "BINARY", "STRING", lambda b: b.hex().upper()),
    Row("bin", "BIGINT", "STRING", lambda n: f"{n % 2**64:b}"),
    Row("md5", "BINARY", "STRING", lambda b: hashlib.md5(b).hexdigest()),
    Row("sha1", "BINARY", "STRING", lambda b: hashlib.sha1(b).hexdigest(), ("sha",)),
    Row("sha2", "BINARY, INT", "STRING", sha2),
    Row("crc32", "BINARY", "BIGINT", lambda b: wrap(zlib.crc32(b), 64)),
    Row("base64", "BINARY", "STRING", base64_lines),
)

"""Ids that carry what a reader needs: sortable, and an inference id contains its episode's.

``chatcmpl-<episode hex>-<inference hex>``: anyone can derive the partition key (the episode id) without a look-up.
UUIDv7 is RFC 9562: 48 bits of Unix milliseconds, then randomness.
"""

import re
import uuid

_INFERENCE = re.compile(r"^(?:chatcmpl|cmpl)-([0-9a-f]{32})-([0-9a-f]{32})$")
_EPISODE = re.compile(r"^ep-([0-9a-f]{32})$")


def uuid7(milliseconds: int, random: bytes) -> uuid.UUID:
    """A UUIDv7 of a Unix time in ms and ten random bytes (the caller brings the clock and the randomness)."""
    if len(random) != 10:
        raise ValueError("uuid7 needs ten random bytes")
    value = (milliseconds & ((1 << 48) - 1)) << 80 | int.from_bytes(random, "big")
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    return uuid.UUID(int=value)


def episode_id(unique: uuid.UUID) -> str:
    return f"ep-{unique.hex}"


def inference_id(episode: str, unique: uuid.UUID, *, chat: bool = True) -> str:
    """The response's ``id``. `episode` must have been made by `episode_id`.

    Raises ValueError for a foreign episode id.
    """
    match = _EPISODE.match(episode)
    if not match:
        raise ValueError(f"not an episode id: {episode!r}")
    return f"{'chatcmpl' if chat else 'cmpl'}-{match[1]}-{unique.hex}"


def is_episode_id(text: str) -> bool:
    return bool(_EPISODE.match(text))


def is_inference_id(text: str) -> bool:
    return bool(_INFERENCE.match(text))


def episode_of(inference: str) -> str:
    """The episode id inside an inference id; ValueError where there is none."""
    match = _INFERENCE.match(inference)
    if not match:
        raise ValueError(f"not an inference id: {inference!r}")
    return f"ep-{match[1]}"


def engine_model(policy: str, version: int, digest: str) -> str:
    """The immutable name under which an engine knows an adapter version (architecture: swap, rule 1)."""
    return f"{policy}@v{version}-{digest[:12]}"

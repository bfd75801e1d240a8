"""Secrets: looked up in the environment or in a file when they are needed, and hidden in what is shown."""

from __future__ import annotations

import os

from everview.catalog import SecretReference, SinkValue, hide_passwords
from everview.errors import StoreError


def secret_value(reference: SecretReference) -> str:
    """Return the value of secret('NAME'): the variable NAME, or the file that NAME_FILE names."""
    found = os.environ.get(reference.name)
    if found is not None:
        return found
    path = os.environ.get(f"{reference.name}_FILE")
    if path is None:
        raise StoreError(
            f"there is no secret '{reference.name}'",
            next_step=f"set the environment variable {reference.name}, or {reference.name}_FILE to the path "
            "of a file that has it",
        )
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StoreError(
            f"{path}, which should have the secret '{reference.name}', cannot be read: {why}",
            next_step=f"mend the file, or set the environment variable {reference.name}",
        ) from None


def plain_value(value: SinkValue) -> str:
    """Return a value as it is used."""
    return secret_value(value) if isinstance(value, SecretReference) else value


def without_secrets(text: str, values: tuple[SinkValue, ...]) -> str:
    """Return a text as it may be shown: without the values of secrets, and without passwords."""
    for value in values:
        if isinstance(value, SecretReference):
            try:
                hidden = secret_value(value)
            except StoreError:
                continue  # a secret that is not there cannot have got into the text
            text = text.replace(hidden, str(value)) if hidden else text
    return hide_passwords(text)

"""Conditional writes in an object store: an object is made only if there is none, or none but the one read.

pyarrow has no such write, obstore has (the extra `everview[s3]`). It is used for `s3://` where both find the
same credentials: those of the URI, or of the environment. Profiles of ~/.aws only pyarrow reads, and how
`gs://` and `abfs://` map from the one to the other is not tested: there the lock does without.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from everview.errors import StoreError

_KNOWN = {"region", "scheme", "endpoint_override", "allow_bucket_creation", "allow_bucket_deletion"}


class ConditionalObject:
    """One object of a store of obstore."""

    def __init__(self, store: Any, path: str) -> None:
        self._store, self._path = store, path

    def read(self) -> tuple[bytes, str | None] | None:
        """Return the bytes and the tag of this version of the object; None if there is none."""
        import obstore
        from obstore.exceptions import BaseError

        try:
            found = obstore.get(self._store, self._path)
            return bytes(found.bytes()), found.meta["e_tag"]
        except FileNotFoundError:
            return None
        except BaseError as error:
            raise self._unreachable("read", error) from error

    def write(self, data: bytes, replaces: str | None = None) -> bool:
        """Write it if there is none, or if it still has this tag; return whether that was so."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        try:
            obstore.put(
                self._store, self._path, data, mode="create" if replaces is None else {"e_tag": replaces}
            )
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            return False
        except BaseError as error:
            raise self._unreachable("write", error) from error
        return True

    def _unreachable(self, verb: str, error: Exception) -> StoreError:
        return StoreError(
            f"could not {verb} {self._path} in the object store: {str(error).splitlines()[0]}",
            next_step="check the credentials and the endpoint; without obstore pyarrow is used alone",
        )


def conditional_object(root: str, path: str, region: str | None) -> ConditionalObject | None:
    """Return an object below a root as pyarrow names it; None where there are no conditional writes."""
    config = s3_config(root, region)
    if config is None:
        return None
    try:
        from obstore.store import S3Store
    except ImportError:
        return None
    parts = urlsplit(root)
    plain = config.get("endpoint", "").startswith("http://")
    store = S3Store(
        parts.hostname or "",
        prefix=parts.path.strip("/") or None,
        config=config,  # type: ignore[arg-type]
        client_options={"allow_http": plain},
    )
    return ConditionalObject(store, path)


def s3_config(root: str, region: str | None) -> dict[str, str] | None:
    """Return how obstore finds what pyarrow calls by this URI; None if that is not sure.

    >>> config = s3_config("s3://k:s%2F@data/store?endpoint_override=localhost:9000&scheme=http", "eu-west-1")
    >>> config["access_key_id"], config["secret_access_key"], config["endpoint"], config["region"]
    ('k', 's/', 'http://localhost:9000', 'eu-west-1')
    >>> s3_config("gs://data/store", None), s3_config("s3://k:s@data/store?tls_ca_file_path=x", None)
    (None, None)
    """
    parts = urlsplit(root)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if parts.scheme != "s3" or not options.keys() <= _KNOWN:
        return None
    if parts.username and parts.password:
        config = {"access_key_id": unquote(parts.username), "secret_access_key": unquote(parts.password)}
    elif os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"):
        config = {}  # obstore reads the environment
    else:
        return None
    if "endpoint_override" in options:
        config["endpoint"] = f"{options.get('scheme', 'https')}://{options['endpoint_override']}"
    region = options.get("region", region)
    return config | ({"region": region} if region else {})

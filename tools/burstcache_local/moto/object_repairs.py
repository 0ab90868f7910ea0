"""Repairs to how moto takes objects in and gives them out."""

from __future__ import annotations

from typing import Any

from burstcache_local.moto.registry import repair


@repair
def objects_are_no_forms() -> None:
    """moto parses an object that has the type of a form, which is what curl says of data, and keeps nothing of it."""
    from moto.s3.responses import S3Response
    from werkzeug.datastructures import ImmutableMultiDict

    set_up = S3Response.setup_class

    def setup_class(self: S3Response, request: Any, *args: Any, **more: Any) -> None:
        if request.method == "PUT":
            request.get_data(cache=True)
            vars(request).update(form=ImmutableMultiDict(), files=ImmutableMultiDict())
        set_up(self, request, *args, **more)

    S3Response.setup_class = setup_class


@repair
def replaced_objects_stay_readable() -> None:
    """moto closes an object's file when another one takes its key, also under those who are just putting or reading it.

    The file goes with the last of them, as what nobody refers to any more does.
    """
    from moto.s3.models import FakeKey

    close = FakeKey.dispose

    def dispose(self: FakeKey, garbage: bool = False) -> None:
        if garbage:
            close(self, garbage)
        self.disposed = True

    FakeKey.dispose = dispose

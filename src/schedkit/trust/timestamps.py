"""RFC 3161: a timestamp authority's word that a signature was there at a time."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from schedkit.trust.trusted_root import Authority


def read_times(timestamps: Sequence[bytes], signature: bytes, authorities: Sequence[Authority]) -> list[datetime]:
    """The times that trusted timestamp authorities confirm; what others say is ignored."""
    times = []
    for timestamp in timestamps:
        time = _read_time(timestamp, signature, authorities)
        if time is not None:
            times.append(time)
    return times


def _read_time(timestamp: bytes, signature: bytes, authorities: Sequence[Authority]) -> datetime | None:
    from rfc3161_client import VerifierBuilder, decode_timestamp_response

    try:
        response = decode_timestamp_response(timestamp)
        time = response.tst_info.gen_time
    except Exception:  # of many kinds, and one that cannot be read says nothing
        return None
    for authority in authorities:
        if len(authority.chain) < 2 or not authority.period.holds(time):
            continue
        builder = VerifierBuilder().tsa_certificate(authority.chain[0]).add_root_certificate(authority.chain[-1])
        for certificate in authority.chain[1:-1]:
            builder = builder.add_intermediate_certificate(certificate)
        with suppress(Exception):  # a certificate inside that cannot be read has errors of its own
            builder.build().verify_message(response, signature)
            return time
    return None

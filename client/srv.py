"""SRV records: a name of the DNS that lists servers (RFC 2782).

The rules follow the Java client where the Java client has rules:

* The name, such as ``_zookeeper._tcp.example.com``, is looked up as it is written. Like a host name, it is
  also looked up below the search domains of this machine.
* Each record is a server: the host name and the port of its target. Priority and weight are ignored, because
  the servers of an ensemble share their clients evenly.
* Records without a port are left out. Records with the target ``.``, which means that the service does not
  exist, are left out too. An answer without any server counts as a failure.
"""

from __future__ import annotations

_PATIENCE = 5.0
"""The seconds to wait for an answer, for all DNS servers and all search domains together."""
_ADVICE = "SRV records need a package that is not installed: pip install dnspython"


async def look_up(name: str) -> list[tuple[str, int]]:
    """Return the host names and ports that the records of a name list.

    :raises OSError: there is no answer, the answer has no server, or dnspython is not installed.
    """
    try:
        import dns.asyncresolver  # takes 0.1 s, and whoever lists his servers does without it
        from dns.exception import DNSException
    except ImportError:
        raise OSError(_ADVICE) from None
    try:
        answer = await dns.asyncresolver.resolve(name, "SRV", lifetime=_PATIENCE, search=True)
    except DNSException as error:
        raise OSError(str(error)) from error
    found = [(str(record.target).removesuffix("."), int(record.port)) for record in answer]
    servers = [(host, port) for host, port in found if host and port]
    if not servers:
        raise OSError(f"no SRV record of {name} names a server")
    return servers

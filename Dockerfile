# syntax=docker/dockerfile:1
# Inside its container the server listens on all addresses, as nobody could reach it otherwise: server/app/image.py.
FROM python:3.13-slim
LABEL org.opencontainers.image.title="pyzk-server" org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.description="An in-memory coordination server that speaks the ZooKeeper protocol, for tests"
RUN useradd --uid 1000 zookeeper && install --directory --owner 1000 /data /datalog
COPY --chmod=755 release/image/ /usr/local/bin/
RUN --mount=target=/source,rw pip install --no-cache-dir --require-hashes -r /source/release/lock.txt \
  && pip install --no-cache-dir --no-deps /source
USER 1000
EXPOSE 2181 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --start-interval=1s CMD ["python", "-m", "pyzk.server.app.image", "pyzk", "--session-timeout", "3", "health"]
ENTRYPOINT ["python", "-m", "pyzk.server.app.image"]

# Seriatim in a container. The first stage builds the wheel, the second gets its virtual
# environment and no compiler. docs/docker.md says how to build, run and prove it.

# Any Debian with Python 3.11 or newer.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS builder

RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        gcc libc6-dev python3-dev python3-venv \
    && apt-get clean && rm -rf /var/lib/apt/lists/*

# pip lives in an environment of its own, so that the one we ship never holds it.
RUN python3 -m venv /opt/build \
    && python3 -m venv --without-pip /opt/seriatim

WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY parser parser
COPY sublist sublist
COPY sequencer sequencer
COPY broker broker
COPY cardinal cardinal
COPY pyspark_seriatim pyspark_seriatim
COPY seriatim seriatim

# Say `--build-arg EXTRAS=[uvloop]` for libuv's event loop.
ARG EXTRAS=""
# Uncompiled kernels are for machines without a compiler; in an image they would be a slow secret.
RUN SERIATIM_REQUIRE_COMPILED=1 SERIATIM_LDFLAGS=-s \
        /opt/build/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && /opt/build/bin/pip --python /opt/seriatim/bin/python install --no-cache-dir \
        "$(echo /wheels/seriatim-*.whl)${EXTRAS}"

# The tests, of the wheel that is shipped: a failure ends the build. What the wheel needs for it is in an
# environment of its own, and nothing of this stage is in the image.
FROM builder AS test

WORKDIR /test
RUN python3 -m venv --without-pip /opt/test \
    && /opt/build/bin/pip --python /opt/test/bin/python install --no-cache-dir \
        "$(echo /wheels/seriatim-*.whl)[image-test]"
COPY testkit testkit
COPY tests tests
COPY pyproject.toml ./
COPY deploy/docker/run_tests.sh ./
# Say `--build-arg TESTS=tests/parser` for a part of them.
ARG TESTS=""
RUN sh run_tests.sh /opt/test/bin/python ${TESTS}

FROM ${BASE}

ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="Seriatim" \
      org.opencontainers.image.description="A pub/sub broker for NATS clients that gives every message one number in one total order" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.documentation="https://seriatim.readthedocs.io"

RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3 \
    && apt-get clean && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 65532 seriatim \
    && useradd --uid 65532 --gid seriatim --no-create-home \
        --home-dir /var/lib/seriatim --shell /usr/sbin/nologin seriatim \
    && install --directory --owner=seriatim --group=seriatim --mode=0750 /var/lib/seriatim

# By way of the stage that has tested it, which leaves it as it was: without that it would be passed over.
COPY --from=test /opt/seriatim /opt/seriatim
COPY --chmod=0644 deploy/docker/healthcheck.py /opt/seriatim/healthcheck.py

ENV PATH=/opt/seriatim/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# The journal, whatever command is run: the one place that is written to.
ENV SERIATIM_STORE_DIR=/var/lib/seriatim
VOLUME ["/var/lib/seriatim"]

# By number, so that an orchestrator can see without /etc/passwd that this is not root.
USER 65532:65532
WORKDIR /var/lib/seriatim

EXPOSE 4222
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["/usr/bin/python3", "-IS", "/opt/seriatim/healthcheck.py", "8222"]

# Exec form: the broker is process 1 itself, so that it gets the stop signal, no shell between.
ENTRYPOINT ["/opt/seriatim/bin/seriatim"]
# Monitoring has no password: it is for the health check alone, unless a command says otherwise.
CMD ["serve", "-a", "0.0.0.0", "-p", "4222", "-m", "8222", "--http_host", "127.0.0.1"]

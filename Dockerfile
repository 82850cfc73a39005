# Two images. The broker as `make run` starts it, and every `kohort` command but the audit:
#     docker build -t kohort .
# The same with Spark and a Java runtime, which take 1 GB, for `kohort audit`:
#     docker build -t kohort-audit --target audit .
FROM python:3.13-slim AS wheel

RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev  # optional: see hatch_build.py
WORKDIR /opt/kohort
COPY pyproject.toml hatch_build.py pypi_readme.py README.md LICENSE ./
COPY audit audit
COPY broker broker
COPY client client
COPY coordinator coordinator
COPY history history
COPY protocol protocol
COPY src src
COPY storage storage
COPY testing testing
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist .


FROM python:3.13-slim AS packages

COPY requirements.lock ./
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements.lock
RUN useradd --system --home-dir /var/lib/kohort --create-home kohort \
    && install -d -o kohort /var/lib/kohort-audit
VOLUME /var/lib/kohort
ENV KOHORT_CFG_LOG_DIRS=/var/lib/kohort/data \
    KOHORT_CFG_LISTENERS=PLAINTEXT://0.0.0.0:9092 \
    KOHORT_CFG_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092
ENTRYPOINT ["kohort"]
CMD ["serve"]


FROM packages AS audit

COPY requirements-audit.lock ./
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements-audit.lock
COPY --from=wheel /dist /dist
RUN pip install --no-cache-dir --no-deps /dist/*.whl
USER kohort
VOLUME /var/lib/kohort-audit


FROM packages AS broker

COPY --from=wheel /dist /dist
RUN pip install --no-cache-dir --no-deps /dist/*.whl && python -m compileall -q "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
USER kohort
EXPOSE 9092

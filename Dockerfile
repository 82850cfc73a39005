# The broker as `make run` starts it, and every other `kohort` command.
FROM python:3.13-slim

WORKDIR /opt/kohort
COPY requirements.lock ./
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY broker broker
COPY coordinator coordinator
COPY protocol protocol
COPY storage storage
RUN pip install --no-cache-dir --no-deps . && python -m compileall -q "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

RUN useradd --system --home-dir /var/lib/kohort --create-home kohort
USER kohort
VOLUME /var/lib/kohort
EXPOSE 9092
ENV KOHORT_LOG_DIRS=/var/lib/kohort/data \
    KOHORT_LISTENERS=PLAINTEXT://0.0.0.0:9092 \
    KOHORT_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092

ENTRYPOINT ["kohort"]
CMD ["serve"]

# An image of kapi that runs without root: docker build -t kapi . ; docs/howto/install.rst shows how it is run.
FROM python:3.13-slim AS build
COPY . /src
RUN python -m venv /opt/kapi \
    && /opt/kapi/bin/pip install --no-cache-dir /src \
    && /opt/kapi/bin/pip uninstall --yes pip \
    && find /opt/kapi -name tests -path '*site-packages*' -prune -exec rm -rf {} + \
    && find /opt/kapi -name test -path '*site-packages/twisted*' -prune -exec rm -rf {} + \
    && find /opt/kapi -name '*.so' -exec sh -c 'command -v strip > /dev/null && strip --strip-unneeded "$@" || :' strip {} + \
    && mkdir /data

FROM python:3.13-slim
COPY --from=build /opt/kapi /opt/kapi
COPY --from=build --chown=65532:65532 /data /data
ENV PATH=/opt/kapi/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HOME=/data
USER 65532:65532
VOLUME /data
EXPOSE 6443
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=60s CMD ["kapi", "get", "--raw=/readyz", "--kubeconfig=/data/admin.kubeconfig"]
ENTRYPOINT ["kapi", "--data-dir=/data", "--bind-address=0.0.0.0"]

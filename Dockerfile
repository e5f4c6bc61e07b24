# Builds the `causeway` program and puts it, alone, into a small image that runs
# as an ordinary user. Mount a configuration at /etc/causeway/causeway.toml:
#
#     docker build -t causeway .
#     docker run --read-only --network host -e CAUSEWAY_MYSQL_PASSWORD \
#         -v "$PWD/causeway.toml:/etc/causeway/causeway.toml:ro" causeway
#
# The API listens on the container's own loopback unless api.listen says
# otherwise: share the application's network (a pod, or --network host), or set
# api.listen = "0.0.0.0:7071" together with api.token_env.

FROM rust:1-bookworm AS builder
WORKDIR /src
# The image needs no debug information.
ENV CARGO_PROFILE_RELEASE_DEBUG=false \
    CARGO_PROFILE_RELEASE_STRIP=symbols

# Dependencies first, over an empty crate: this layer is built again only when
# the manifest, the lock file or a benchmark changes. The benchmarks are here
# because the manifest names them.
COPY Cargo.toml Cargo.lock ./
COPY benches ./benches
RUN mkdir src \
    && touch src/lib.rs \
    && echo 'fn main() {}' > src/main.rs \
    && cargo build --release --locked --bin causeway \
    && rm -r src

COPY src ./src
# Files of a build context may be older than the empty crate, and Cargo goes by
# their time.
RUN touch src/lib.rs src/main.rs \
    && cargo build --release --locked --bin causeway

FROM debian:bookworm-slim
COPY LICENSE /usr/share/doc/causeway/LICENSE
COPY --from=builder /src/target/release/causeway /usr/local/bin/causeway
# For api.socket = "/run/causeway/api.sock".
RUN install -d -o 10001 -g 10001 /run/causeway
USER 10001:10001
EXPOSE 7071

# Set CAUSEWAY_URL when api.listen has another port. 2 is what `causeway health`
# exits with when nobody answers, and Docker reserves that code.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD ["/bin/sh", "-c", "causeway health || exit 1"]

ENTRYPOINT ["causeway"]
CMD ["serve", "--config", "/etc/causeway/causeway.toml"]

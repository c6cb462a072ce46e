#include "worker_runtime/backends/gloo/gloo_device.hpp"

#include <gloo/common/error.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace ddprun {

namespace transport = gloo::transport;

/// Existing buffers, and the state of their waits.
class GlooWaits {
 public:
  void add(transport::UnboundBuffer& buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.insert(&buffer);
  }
  void remove(transport::UnboundBuffer& buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.erase(&buffer);
  }

  /// Throws if waits were ended. A wait that starts after this check is ended as well, since Gloo
  /// keeps an abort until a wait consumes it.
  void check() const {
    const std::lock_guard lock(mutex_);
    if (have_ended_) raise();
  }

  void end() noexcept {
    const std::lock_guard lock(mutex_);
    have_ended_ = true;
    for (auto* buffer : buffers_) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }

  [[noreturn]] static void raise() { throw gloo::IoException("Waits have been ended here"); }

 private:
  mutable std::mutex mutex_;
  std::set<transport::UnboundBuffer*> buffers_;
  bool have_ended_ = false;
};

namespace {

using std::chrono::milliseconds;

/// A Gloo buffer whose waits can be ended; Gloo reports an aborted wait as completed.
class AbortableBuffer : public transport::UnboundBuffer {
 public:
  AbortableBuffer(std::unique_ptr<transport::UnboundBuffer> inner, std::shared_ptr<GlooWaits> waits)
      : transport::UnboundBuffer(inner->ptr, inner->size),
        inner_(std::move(inner)),
        waits_(std::move(waits)) {
    waits_->add(*inner_);
  }
  ~AbortableBuffer() override { waits_->remove(*inner_); }

  bool waitRecv(int* rank, milliseconds timeout) override {
    waits_->check();
    return inner_->waitRecv(rank, timeout) || (GlooWaits::raise(), false);
  }
  bool waitSend(int* rank, milliseconds timeout) override {
    waits_->check();
    return inner_->waitSend(rank, timeout) || (GlooWaits::raise(), false);
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }

  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    inner_->send(to, slot, offset, bytes);
  }
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    inner_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    inner_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  const std::unique_ptr<transport::UnboundBuffer> inner_;
  const std::shared_ptr<GlooWaits> waits_;
};

/// A Gloo context with such buffers.
class Context : public transport::Context {
 public:
  Context(std::shared_ptr<transport::Context> inner, std::shared_ptr<GlooWaits> waits)
      : transport::Context(inner->rank, inner->size),
        inner_(std::move(inner)),
        waits_(std::move(waits)) {}

  std::unique_ptr<transport::Pair>& getPair(int other) override { return inner_->getPair(other); }

  std::unique_ptr<transport::Pair>& createPair(int other) override {
    inner_->setTimeout(getTimeout());  // set here, before pairs exist
    return inner_->createPair(other);
  }

#ifdef GLOO_SHARED_STORE
  void createAndConnectAllPairs(std::shared_ptr<gloo::IStore> store) override {
    inner_->setTimeout(getTimeout());
    inner_->createAndConnectAllPairs(std::move(store));
  }
#endif

  std::unique_ptr<transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                std::size_t bytes) override {
    return std::make_unique<AbortableBuffer>(inner_->createUnboundBuffer(data, bytes), waits_);
  }

 private:
  const std::shared_ptr<transport::Context> inner_;
  const std::shared_ptr<GlooWaits> waits_;
};

transport::tcp::attr attributes_of(const std::string& address) {
  transport::tcp::attr attributes;
  attributes.hostname = address;
  return transport::tcp::CreateDeviceAttr(attributes);
}

}  // namespace

#ifdef GLOO_SHARED_STORE  // Gloo since 2025
GlooDevice::GlooDevice(const std::string& address)
    : transport::tcp::Device(attributes_of(address), /*lazyInit=*/false),
      waits_(std::make_shared<GlooWaits>()) {}
#else
GlooDevice::GlooDevice(const std::string& address)
    : transport::tcp::Device(attributes_of(address)), waits_(std::make_shared<GlooWaits>()) {}
#endif

std::shared_ptr<transport::Context> GlooDevice::createContext(int rank, int size) {
  return std::make_shared<Context>(transport::tcp::Device::createContext(rank, size), waits_);
}

void GlooDevice::end_waits() noexcept {
  waits_->end();
}

}  // namespace ddprun

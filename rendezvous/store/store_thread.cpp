#include "rendezvous/store/store_thread.hpp"

#include "rendezvous/store/store_server.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <thread>

namespace ddprun {

struct StoreThread::Impl {
  Impl() : server(context.get_executor(), {}), work(context.get_executor()) {
    server.start();
    thread = std::thread([this] { context.run(); });
  }

  boost::asio::io_context context;
  StoreServer server;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work;
  std::thread thread;
};

StoreThread::StoreThread() : impl_(std::make_unique<Impl>()) {}

StoreThread::~StoreThread() {
  boost::asio::post(impl_->context, [this] {
    impl_->server.stop();
    impl_->work.reset();
  });
  impl_->thread.join();
}

const StoreEndpoint& StoreThread::endpoint() const {
  return impl_->server.endpoint();
}

}  // namespace ddprun

#include "rendezvous/membership/seat.hpp"

#include "rendezvous/membership/codec.hpp"

#include <utility>

namespace ddprun::membership {

Seat::Seat(boost::asio::any_io_executor executor, const StoreEndpoint& address, Log log)
    : executor_(std::move(executor)),
      log_(std::move(log)),
      store_(std::make_unique<StoreServer>(
          executor_, StoreServerOptions{.address = address.host,
                                        .port = address.port,
                                        .log = log_,
                                        .other_greeting = std::string(kGreeting),
                                        .hand_over = [this](int fd, std::string_view bytes) {
                                          coordinator_->admit(fd, bytes);
                                        }})) {}

void Seat::begin(Settings settings, const security::Secret* secret, Office office) {
  coordinator_ = std::make_unique<Coordinator>(
      executor_, std::move(settings), secret, std::move(office), [this] { store_->new_attempt(); },
      log_);
  store_->start();
}

}  // namespace ddprun::membership

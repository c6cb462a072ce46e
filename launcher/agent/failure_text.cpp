#include "launcher/agent/failure_text.hpp"

#include "launcher/report/exit_code.hpp"
#include "rendezvous/base/error_text.hpp"
#include <ddprun/error.hpp>

#include <boost/system/system_error.hpp>

namespace ddprun {

std::string failure_text(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    const bool is_of_system = error.code().category() == boost::system::system_category();
    return "the agent's event loop: " +
           (is_of_system ? error_text(error.code().value()) : error.code().message());
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown failure";
  }
}

int exit_code_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.code() == Errc::usage ? kExitUsage : kExitFailure;
  } catch (...) {
    return kExitFailure;
  }
}

}  // namespace ddprun

#include "launcher/agent/failure_text.hpp"

#include "launcher/report/exit_code.hpp"
#include <ddprun/error.hpp>

#include <boost/system/system_error.hpp>

#include <cerrno>

namespace ddprun {

std::string failure_text(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    const int number = error.code().value();
    const bool has_no_descriptors = number == EMFILE || number == ENFILE;
    return "the agent's event loop: " + error.code().message() +
           (has_no_descriptors ? " (see ulimit -n)" : "");
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

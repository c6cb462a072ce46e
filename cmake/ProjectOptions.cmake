# What every target of the project compiles with. Flags that are a choice (sanitizers, optimisation)
# belong to the presets.
add_library(ddprun_options INTERFACE)
target_compile_features(ddprun_options INTERFACE cxx_std_20)
target_include_directories(ddprun_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
set(warnings
    -Wall
    -Wextra
    -Wpedantic
    -Wshadow
    -Wconversion
    -Wno-sign-conversion
    -Wno-missing-field-initializers
    -Wnon-virtual-dtor
    -Woverloaded-virtual
    -Wold-style-cast
    -Werror=return-type
    -Werror=switch)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Of fences, which g++'s thread sanitizer does not follow.
  list(APPEND warnings -Wno-tsan)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ takes the sources of a unity build for headers, whose types must not be local to a source.
  list(APPEND warnings -Wno-subobject-linkage)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Of what libstdc++ before version 13 calls in its own std::stable_sort. g++ reports the project's own uses.
  list(APPEND warnings -Wno-deprecated-declarations)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 22)
    # doctest's macros use __COUNTER__.
    list(APPEND warnings -Wno-c2y-extensions)
  endif()
endif()
target_compile_options(ddprun_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${warnings}>")

# Hardening of optimised builds: FORTIFY needs optimisation, and the sanitizers' builds check more. Flags that the compiler or the
# C library does not know are left out.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C CXX)
include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
set(hardening -fstack-protector-strong)
foreach(flag IN ITEMS -fstack-clash-protection -fcf-protection -mbranch-protection=standard)
  string(MAKE_C_IDENTIFIER "DDPRUN_HAS${flag}" has_flag)
  check_cxx_compiler_flag(${flag} ${has_flag})
  if(${has_flag})
    list(APPEND hardening ${flag})
  endif()
endforeach()
set(CMAKE_REQUIRED_FLAGS "-O1 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_cxx_source_compiles("#include <cstdlib>\nint main() {}" DDPRUN_HAS_FORTIFY_3)
unset(CMAKE_REQUIRED_FLAGS)
list(APPEND hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$<IF:$<BOOL:${DDPRUN_HAS_FORTIFY_3}>,3,2> -D_GLIBCXX_ASSERTIONS)
set(is_optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
target_compile_options(ddprun_options INTERFACE "$<$<AND:${is_optimised},$<COMPILE_LANGUAGE:C,CXX>>:${hardening}>")
target_link_options(ddprun_options INTERFACE "$<${is_optimised}:LINKER:-z,relro,-z,now,-z,noexecstack>")

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.hpp.in ${PROJECT_BINARY_DIR}/generated/include/ddprun/version.hpp @ONLY)

# Asio in one shape everywhere: std::coroutine awaitables, no deprecated names, its headers as system headers.
# One target so that the installed libraries can use it without exporting it.
add_library(ddprun_asio INTERFACE)
target_link_libraries(ddprun_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(ddprun_asio INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_COROUTINE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 does not see that Asio frees the frame of a coroutine by the counterpart of what allocated it.
  target_compile_options(ddprun_asio INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-mismatched-new-delete>)
endif()

# Installs the build into a temporary folder, builds the consumer project against it there and runs it under the
# installed launcher.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(folder ${BUILD_FOLDER}/install_test)
file(REMOVE_RECURSE ${folder})
run(${CMAKE_COMMAND} --install ${BUILD_FOLDER} --prefix ${folder}/prefix)
run(${CMAKE_COMMAND} -G Ninja -S ${CONSUMER} -B ${folder}/build -D CMAKE_PREFIX_PATH=${folder}/prefix
    -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_DISABLE_FIND_PACKAGE_Boost=ON -D CMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON)
run(${CMAKE_COMMAND} --build ${folder}/build)
run(${folder}/prefix/bin/ddprun --nproc_per_node=3 ${folder}/build/consumer)
if(NOT output MATCHES "the sum of all ranks is 3")
  message(FATAL_ERROR "unexpected output:\n${output}")
endif()
# Workers do not prove anything to anybody.
run(ldd ${folder}/build/consumer)
if(output MATCHES "libcrypto")
  message(FATAL_ERROR "a worker loads OpenSSL:\n${output}")
endif()
file(REMOVE_RECURSE ${folder})

SELECT {this_server}

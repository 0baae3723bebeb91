#!/bin/busybox sh
# The kernel's first process: brings up the disk and the project, then makes way for init.py.
/bin/busybox mount -t devtmpfs devtmpfs /dev
for module in $(/bin/busybox cat /modules/order); do
    /bin/busybox insmod "/modules/$module" || echo "cannot load $module"
done
/bin/busybox mount -t ext4 -o noatime /dev/vda /root
/bin/busybox mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose,access=any project /root/shared
export PYTHONPATH=/shared PYTHONDONTWRITEBYTECODE=1
exec /bin/busybox switch_root /root /usr/bin/python3 -S -m tests.guest.inside.init
